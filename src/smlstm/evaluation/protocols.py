"""Protocols: which images are ranked against each other.

| name | what | used for |
|---|---|---|
| `all` | every image of the split against every sentence | Flickr 1K, COCO 1K (Kiros), COCO 5K |
| `folds` | folds of 1000 images, each ranked on its own; every metric is the mean over folds | COCO 1K, five folds |

The Sum of folds is the sum of the mean hit rates, which is the mean of the folds' Sums.
"""

from dataclasses import fields

import numpy as np
from numpy.typing import NDArray

from smlstm.errors import InputError
from smlstm.evaluation.ranks import BothWays, Metrics, both_ways, ranks

FOLD = 1000


def evaluate_all(scores: NDArray[np.floating], image_of: NDArray[np.integer]) -> BothWays:
    """Every image against every sentence."""
    return both_ways(ranks(scores, image_of))


def evaluate_folds(scores: NDArray[np.floating], image_of: NDArray[np.integer], fold: int = FOLD) -> BothWays:
    """Means over consecutive folds of images; images beyond the last whole fold are refused, not dropped."""
    images = scores.shape[0]
    if images == 0 or images % fold:
        raise InputError(f"{images} images cannot be cut into folds of {fold}: take the protocol `all`")
    parts = []
    for start in range(0, images, fold):
        columns = np.flatnonzero((image_of >= start) & (image_of < start + fold))
        parts.append(evaluate_all(scores[start : start + fold][:, columns], image_of[columns] - start))
    return BothWays(_mean([part.annotation for part in parts]), _mean([part.retrieval for part in parts]))


def _mean(parts: list[Metrics]) -> Metrics:
    return Metrics(*(float(np.mean([getattr(part, field.name) for part in parts])) for field in fields(Metrics)))
