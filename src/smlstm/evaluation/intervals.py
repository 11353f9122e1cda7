"""How far the numbers can be trusted: bootstrap intervals over images, and a paired test between two models.

Images are drawn, not sentences: the captions of one image are hit or missed together, and drawing them one by one
would make intervals too narrow. The gallery stays whole, so a drawn image keeps its ranks.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from smlstm.errors import InputError
from smlstm.evaluation.ranks import Ranks

AT = (1, 5, 10)
METRICS = (*(f"r{k}" for k in AT), "median", "mean", "mrr")
_DRAWS_AT_ONCE = 256


@dataclass(frozen=True)
class Interval:
    """A value and the bounds within which it lies with the given confidence."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Difference:
    """The Sum of one model minus another's on the same images."""

    difference: Interval
    p: float
    """How often chance alone would make the two differ as much, either way."""


class _Way:
    """The ranks of one direction within one fold, by the images that they belong to."""

    def __init__(self, ranks: NDArray[np.int64], owners: NDArray[np.int64], images: int) -> None:
        order = np.argsort(ranks, kind="stable")
        self._ranks, self._owners = ranks[order], owners[order]  # n, the best first
        found = self._ranks[:, None]
        told = np.concatenate([100.0 * (found <= np.array(AT)), found, 1 / found], axis=1)  # n, 5
        self._told = np.zeros((images, told.shape[1]))
        np.add.at(self._told, self._owners, told)
        self._counts = np.bincount(self._owners, minlength=images).astype(np.float64)  # M

    def metrics(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """METRICS when each image counts `weights` times; B, M -> B, 6."""
        means = weights @ self._told / (weights @ self._counts)[:, None]
        return np.insert(means, len(AT), self._medians(weights), axis=1)

    def hits_by_image(self) -> NDArray[np.float64]:
        """What each image adds to the sum of the hit rates; M."""
        shares: NDArray[np.float64] = self._told[:, : len(AT)].sum(1) / self._counts.sum()
        return shares

    def _medians(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        reached = np.cumsum(weights[:, self._owners], axis=1)  # B, n
        half = reached[:, -1:] / 2
        middle = ((reached < half).sum(1), (reached <= half).sum(1))
        medians: NDArray[np.float64] = (self._ranks[middle[0]] + self._ranks[middle[1]]) / 2
        return medians


class _Fold:
    """Both directions of one fold, over its images that have sentences."""

    def __init__(self, found: Ranks) -> None:
        if not len(found.annotation_images):
            raise InputError("there is nothing to measure: no image has a sentence")
        self.images = len(found.annotation_images)
        order = np.argsort(found.annotation_images, kind="stable")
        places = np.searchsorted(found.annotation_images[order], found.retrieval_images)
        self._annotation = _Way(found.annotation[order], np.arange(self.images), self.images)
        self._retrieval = _Way(found.retrieval, places, self.images)

    def metrics(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """B, M -> B, 12: METRICS of annotation, then of retrieval."""
        return np.concatenate([self._annotation.metrics(weights), self._retrieval.metrics(weights)], axis=1)

    def sum_by_image(self) -> NDArray[np.float64]:
        """What each image adds to Sum; M."""
        return self._annotation.hits_by_image() + self._retrieval.hits_by_image()


def metric_intervals(
    found: Ranks | Sequence[Ranks], *, draws: int = 2000, confidence: float = 0.95, seed: int = 0
) -> dict[str, Interval]:
    """Bootstrap intervals of every metric, by name: `i2t_r1` ... `t2i_mrr`, and `sum`.

    Of several folds: of the means over folds; images are drawn within each.
    """
    folds = [_Fold(part) for part in _parts(found)]
    value = np.mean([fold.metrics(np.ones((1, fold.images)))[0] for fold in folds], axis=0)
    drawn = _draw(folds, draws, seed)
    names = [f"{way}_{name}" for way in ("i2t", "t2i") for name in METRICS]
    columns = {name: (float(value[k]), drawn[:, k]) for k, name in enumerate(names)}
    columns["sum"] = (float(_sum(value[None])[0]), _sum(drawn))
    return {name: _interval(each, sample, confidence) for name, (each, sample) in columns.items()}


def compare(
    one: Ranks | Sequence[Ranks],
    other: Ranks | Sequence[Ranks],
    *,
    draws: int = 2000,
    confidence: float = 0.95,
    seed: int = 0,
) -> Difference:
    """A paired test on Sum: an interval by drawing images, and a p by swapping the two models image by image."""
    firsts, seconds = _parts(one), _parts(other)
    if len(firsts) != len(seconds) or not all(map(_same_images, firsts, seconds)):
        raise InputError("two models can be compared on the same images and sentences only")
    first, second = [_Fold(part) for part in firsts], [_Fold(part) for part in seconds]
    # Both share their denominators, so Sum is a plain sum over images and its difference too.
    share = np.concatenate([a.sum_by_image() - b.sum_by_image() for a, b in zip(first, second, strict=True)])
    share /= len(first)
    value = float(share.sum())
    drawn = _sum(_draw(first, draws, seed)) - _sum(_draw(second, draws, seed))
    generator = np.random.default_rng(seed + 1)
    swapped = np.concatenate(
        [
            generator.choice([-1.0, 1.0], (min(_DRAWS_AT_ONCE, draws - start), len(share))) @ share
            for start in range(0, draws, _DRAWS_AT_ONCE)
        ]
    )
    as_far = np.abs(swapped) >= abs(value) - 1e-9
    return Difference(_interval(value, drawn, confidence), float((as_far.sum() + 1) / (draws + 1)))


def _parts(found: Ranks | Sequence[Ranks]) -> list[Ranks]:
    return [found] if isinstance(found, Ranks) else list(found)


def _same_images(one: Ranks, other: Ranks) -> bool:
    return np.array_equal(one.annotation_images, other.annotation_images) and np.array_equal(
        one.retrieval_images, other.retrieval_images
    )


def _draw(folds: Sequence[_Fold], draws: int, seed: int) -> NDArray[np.float64]:
    """The metrics of drawn images, means over folds; draws, 12. Equal images and seeds draw the same."""
    generator = np.random.default_rng(seed)
    drawn = [
        np.concatenate([fold.metrics(weights) for weights in _weights(fold.images, draws, generator)]) for fold in folds
    ]
    mean: NDArray[np.float64] = np.mean(drawn, axis=0)
    return mean


def _sum(metrics: NDArray[np.float64]) -> NDArray[np.float64]:
    """The paper's Sum; B, 12 -> B."""
    hits: NDArray[np.float64] = metrics.reshape(len(metrics), 2, len(METRICS))[..., : len(AT)].sum((1, 2))
    return hits


def _weights(images: int, draws: int, generator: np.random.Generator) -> Iterator[NDArray[np.float64]]:
    """How often each image is drawn, for blocks of draws; each B, M."""
    chances = np.full(images, 1 / images)
    for start in range(0, draws, _DRAWS_AT_ONCE):
        yield generator.multinomial(images, chances, size=min(_DRAWS_AT_ONCE, draws - start)).astype(np.float64)


def _interval(value: float, sample: NDArray[np.float64], confidence: float) -> Interval:
    low, high = np.quantile(sample, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Interval(float(value), float(low), float(high))
