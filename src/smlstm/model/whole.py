"""The global score, beyond the paper: to what the steps say, MNLM's score of the whole image and sentence is added.

    s = w_hs . sig(W_hh h_T + b_h) + b_s + x . v       x = unit(m W_I + b), v = unit(n)

With `image_pooling` `max`, x = unit(m W_I + b + max_i a_i W_R): m is often a mean over regions, in which what is small
is faint. With two readers (readers.py) there are two such cosines, each with an x of its own.

How much each term counts (`term_weights`) is x's length here.

The paper adds the scores of two models up only once they are trained. For the same reason each term is trained by a
ranking loss of its own: on a loss of their sum the steps learn next to nothing, since the contexts alone soon tell all
training captions apart (docs/experiments.md).
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from smlstm.matching.batch import ImageFeatures
from smlstm.model.comparison import cosines
from smlstm.model.config import SMLSTMConfig
from smlstm.model.image import with_some_channels


def image_wholes(config: SMLSTMConfig) -> tuple[nn.Linear | None, nn.Linear | None]:
    """W_I and W_R; None where there are none."""
    width = config.sentence_width * (2 if config.context_words == "both" else 1)
    of_context = nn.Linear(config.context_width, width) if config.global_score else None
    of_regions = nn.Linear(config.region_width, width, bias=False) if config.image_pooling == "max" else None
    return of_context, of_regions


def image_whole(
    of_context: nn.Linear | None, of_regions: nn.Linear | None, features: ImageFeatures, dropout: nn.Dropout, width: int
) -> Tensor | None:
    """x; M, E, or 2E of two readers. None without a global score."""
    if of_context is None:
        return None
    x: Tensor = of_context(dropout(features.context))
    if of_regions is not None:
        x = x + of_regions(with_some_channels(features.regions, dropout)).amax(1)
    return units(x, width)


def sentence_whole(n: Tensor, other: Tensor | None) -> Tensor:
    """v; N, E, or 2E where another reader has its say."""
    return units(n if other is None else torch.cat([n, other], 1), n.shape[1])


def units(whole: Tensor, width: int) -> Tensor:
    """Each reader's part as a unit vector: a product of two wholes is the sum of their parts' cosines."""
    parts = whole.view(len(whole), whole.shape[1] // width, width)
    # Not in half precision, whose coarse steps would tie.
    return functional.normalize(parts.to(torch.promote_types(parts.dtype, torch.float32)), dim=2).flatten(1)


def whole_scores(images: Tensor | None, sentences: Tensor | None, width: int, aligned: bool) -> list[Tensor]:
    """x . v of unit vectors, of each reader; M, N, or P, 1 of aligned pairs. Nothing without a global score."""
    if images is None or sentences is None:
        return []
    parts = zip(torch.split(images, width, 1), torch.split(sentences, width, 1), strict=True)
    return [cosines(x[:, None], v[:, None] if aligned else v[None]) for x, v in parts]
