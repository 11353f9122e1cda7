"""What the two baselines that align words with regions (DVSA, SCAN) have in common.

Both look at the image once for every word. Their saliency therefore has a step a word: where the word looked,
the word itself, and the score of the words so far.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from smlstm.matching.batch import Batch, Saliency


@dataclass(frozen=True)
class Regions(Batch):
    """M images in the joint space."""

    vectors: Tensor  # M, I, E: the v_i


@dataclass(frozen=True)
class Words(Batch):
    """N sentences in the joint space."""

    vectors: Tensor  # N, J, E: zero on padding
    mask: Tensor  # N, J: True on real words


def inner_products(words: Tensor, regions: Tensor) -> Tensor:
    """Every word of n sentences (n, J, E) with every region of m images (m, I, E); m, n, J, I."""
    flat = words.flatten(0, 1) @ regions.flatten(0, 1).T  # nJ, mI
    return flat.view(*words.shape[:2], *regions.shape[:2]).movedim(2, 0)


def word_saliency(image: Tensor, scores: Tensor, mask: Tensor) -> Saliency:
    """Steps of P pairs from a map (P, J, I) and a running score (P, J) for each word.

    A sentence shorter than the longest stays at its last word for the steps that it lacks.
    """
    words = image.shape[1]
    place = torch.arange(words, device=image.device)
    shown = torch.minimum(place, mask.sum(1, keepdim=True) - 1)  # P, J: the word that a step shows
    return Saliency(
        image.gather(1, shown[:, :, None].expand_as(image)),
        functional.one_hot(shown, words).to(image.dtype),
        scores.gather(1, shown),
        image,
    )
