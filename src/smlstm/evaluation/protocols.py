"""Protocols: which images are ranked against each other.

| name | what | used for |
|---|---|---|
| `all` | every image of the split against every sentence | Flickr 1K, COCO 1K (Kiros), COCO 5K |
| `folds` | folds of 1000 images, each ranked on its own; every metric is the mean over folds | COCO 1K, five folds |

The Sum of folds is the sum of the mean hit rates, which is the mean of the folds' Sums.
"""

from collections.abc import Sequence
from dataclasses import fields

import numpy as np
from numpy.typing import NDArray

from smlstm.errors import InputError
from smlstm.evaluation.ranks import BothWays, Metrics, Ranks, ranks

FOLD = 1000


def refuse_broken_folds(images: int, fold: int = FOLD) -> None:
    """Refuse a number of images that is not a whole number of folds."""
    if images == 0 or images % fold:
        raise InputError(f"{images} images cannot be cut into folds of {fold}: take the protocol `all`")


def fold_ranks(scores: NDArray[np.floating], image_of: NDArray[np.integer], fold: int = FOLD) -> list[Ranks]:
    """Ranks within each fold, rows counted from the fold's first."""
    refuse_broken_folds(scores.shape[0], fold)
    parts = []
    for start in range(0, scores.shape[0], fold):
        columns = np.flatnonzero((image_of >= start) & (image_of < start + fold))
        parts.append(ranks(scores[start : start + fold][:, columns], image_of[columns] - start))
    return parts


def mean_of(parts: Sequence[BothWays]) -> BothWays:
    """The mean of every metric."""
    return BothWays(_mean([part.annotation for part in parts]), _mean([part.retrieval for part in parts]))


def _mean(parts: list[Metrics]) -> Metrics:
    return Metrics(*(float(np.mean([getattr(part, field.name) for part in parts])) for field in fields(Metrics)))
