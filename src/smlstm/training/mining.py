"""Hard negatives for the price of a matrix product: captions that a trained MNLM takes for each other.

Two captions c, d of different images x, y are confusable when MNLM finds d fitting to x and c fitting to y:

    confusion(c, d) = x . d + y . c

Groups of mutually confusable captions go into a batch together, so that the costly model is trained on few pairs
that teach something instead of many that do not.
"""

import numpy as np
import torch
from torch import Tensor

from smlstm.model import MNLM
from smlstm.model.mnlm import Embedded
from smlstm.training.examples import CaptionTokens, Examples, Integers


class Miner:
    """Groups of captions that an MNLM confuses; every caption of a pool comes exactly once."""

    def __init__(self, vectors: Tensor, crossed: Tensor, image_of: Integers, group: int) -> None:
        self._vectors, self._crossed = vectors, crossed  # N, 2E: (x, c) and (c, x)
        self._image_of, self._group = image_of, group

    @classmethod
    @torch.no_grad()
    def of(cls, mnlm: MNLM, examples: Examples, tokens: CaptionTokens, group: int, chunk: int = 512) -> "Miner":
        """Embed all captions and images once."""
        mnlm.eval()
        # Sorted by length, a chunk has next to no padding.
        order = np.argsort(tokens.lengths, kind="stable")
        captions = torch.empty(len(examples), mnlm.config.sentence_width)
        for start in range(0, len(order), chunk):
            places = order[start : start + chunk]
            encoded = mnlm.encode_sentences(tokens.select(places).to(_device(mnlm)))
            captions[torch.from_numpy(places)] = _vectors(encoded)
        images = torch.cat(
            [
                _vectors(mnlm.encode_images(examples.images.read(part, with_regions=False)))
                for part in np.array_split(np.arange(len(examples.images)), -(-len(examples.images) // chunk))
            ]
        )[torch.from_numpy(examples.image_of)]
        return cls(torch.cat([images, captions], 1), torch.cat([captions, images], 1), examples.image_of, group)

    def order(self, captions: Integers, seed: int) -> Integers:
        """Greedily: the next free caption takes its most confusable free companions, of images not yet there."""
        confusion = (self._vectors[captions] @ self._crossed[captions].T).numpy()  # P, P
        images = self._image_of[captions]
        free = np.ones(len(captions), np.bool_)
        groups: list[Integers] = []
        for anchor in range(len(captions)):
            if not free[anchor]:
                continue
            ranked = np.flatnonzero(free)
            ranked = ranked[np.argsort(-confusion[anchor, ranked], kind="stable")]
            ranked = ranked[ranked != anchor]
            distinct = _first_of_each(images[ranked], images[anchor])
            later = np.setdiff1d(np.arange(len(ranked)), distinct)
            group = np.concatenate([[anchor], ranked[np.concatenate([distinct, later])][: self._group - 1]])
            free[group] = False
            groups.append(captions[group])
        # The last groups are left-overs: spread them over the pool. The one that is not full stays last.
        full = [group for group in groups if len(group) == self._group]
        rest = [group for group in groups if len(group) < self._group]
        shuffled = np.random.default_rng(seed).permutation(len(full))
        ordered = [*(full[int(place)] for place in shuffled), *rest]
        return np.concatenate(ordered).astype(np.int64)


def _first_of_each(images: Integers, anchor: int) -> Integers:
    """Places of the first caption of each image but the anchor's, in order."""
    first: Integers = np.sort(np.unique(images, return_index=True)[1])
    return first[np.flatnonzero(images[first] != anchor)]


def _vectors(encoded: object) -> Tensor:
    assert isinstance(encoded, Embedded)
    return encoded.vectors.float().cpu()


def _device(mnlm: MNLM) -> torch.device:
    return next(mnlm.parameters()).device
