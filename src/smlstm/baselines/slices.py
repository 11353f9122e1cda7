"""All pairs of two batches, a slice at a time, so that what a pair needs on the way never exists for all of them.

Order embeddings need E numbers a pair, SCAN needs words x regions, several times over. Where autograd would keep
them all for the backward pass, a slice is computed again there instead (`recompute`).
"""

from collections.abc import Callable
from typing import TypeVar, cast

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from smlstm.matching.batch import Batch

Images = TypeVar("Images", bound=Batch)
Sentences = TypeVar("Sentences", bound=Batch)

_SLICE = 1 << 21
"""Elements of a slice's largest temporary: 8 MB in float32, about what a core's caches hold."""


def score_slices(
    score: Callable[[Images, Sentences], Tensor],
    images: Images,
    sentences: Sentences,
    pair_size: int,
    recompute: bool,
) -> Tensor:
    """Scores (M, N) from a function that scores a slice of both; `pair_size` counts its temporary's elements."""
    across = max(1, min(len(sentences), _SLICE // max(1, pair_size)))
    down = max(1, _SLICE // max(1, pair_size * across))
    recompute = recompute and torch.is_grad_enabled()

    def one(first: int, second: int) -> Tensor:
        rows, columns = images.select(slice(first, first + down)), sentences.select(slice(second, second + across))
        if not recompute:
            return score(rows, columns)
        again = checkpoint(score, rows, columns, use_reentrant=False, preserve_rng_state=False)
        return cast(Tensor, again)

    return torch.cat(
        [
            torch.cat([one(first, second) for second in range(0, max(1, len(sentences)), across)], dim=1)
            for first in range(0, max(1, len(images)), down)
        ]
    )
