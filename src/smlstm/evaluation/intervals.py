"""How far the numbers can be trusted: bootstrap intervals over images, and a paired test between two models.

Images are drawn, not sentences: the captions of one image are hit or missed together, and drawing them one by one
would make intervals too narrow. The gallery stays whole, so a drawn image keeps its ranks.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from smlstm.errors import InputError
from smlstm.evaluation.ranks import Ranks

AT = (1, 5, 10)
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


@dataclass(frozen=True)
class _Hits:
    """Hits an image; an image's share in each direction is its row."""

    annotation: NDArray[np.float64]  # M, 3
    annotated: NDArray[np.float64]  # M: 1 where an image has sentences
    retrieval: NDArray[np.float64]  # M, 3: of all its sentences
    sentences: NDArray[np.float64]  # M

    def recalls(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """The six hit rates in percent when each image counts `weights` times; B, M -> B, 6."""
        annotation = weights @ self.annotation / (weights @ self.annotated)[:, None]
        retrieval = weights @ self.retrieval / (weights @ self.sentences)[:, None]
        return 100 * np.concatenate([annotation, retrieval], axis=1)


def _hits(found: Ranks) -> _Hits:
    images = int(max(found.annotation_images.max(initial=-1), found.retrieval_images.max(initial=-1))) + 1
    if images == 0:
        raise InputError("there is nothing to measure: no image has a sentence")
    annotation, retrieval = np.zeros((images, 3)), np.zeros((images, 3))
    annotation[found.annotation_images] = found.annotation[:, None] <= np.array(AT)
    np.add.at(retrieval, found.retrieval_images, (found.retrieval[:, None] <= np.array(AT)).astype(float))
    annotated = np.zeros(images)
    annotated[found.annotation_images] = 1
    sentences = np.bincount(found.retrieval_images, minlength=images).astype(float)
    described = annotated > 0
    return _Hits(annotation[described], annotated[described], retrieval[described], sentences[described])


def recall_intervals(
    found: Ranks, *, draws: int = 2000, confidence: float = 0.95, seed: int = 0
) -> dict[str, Interval]:
    """Bootstrap intervals of the six hit rates and of their Sum, by name: `i2t_r1` ... `t2i_r10`, `sum`."""
    hits = _hits(found)
    values = hits.recalls(np.ones((1, len(hits.annotated))))[0]
    drawn = np.concatenate([hits.recalls(weights) for weights in _weights(len(hits.annotated), draws, seed)])
    names = [f"{way}_r{k}" for way in ("i2t", "t2i") for k in AT]
    columns = {name: (values[k], drawn[:, k]) for k, name in enumerate(names)}
    columns["sum"] = (values.sum(), drawn.sum(1))
    return {name: _interval(value, sample, confidence) for name, (value, sample) in columns.items()}


def compare(one: Ranks, other: Ranks, *, draws: int = 2000, confidence: float = 0.95, seed: int = 0) -> Difference:
    """A paired test on Sum: an interval by drawing images, and a p by swapping the two models image by image."""
    first, second = _hits(one), _hits(other)
    if not np.array_equal(one.annotation_images, other.annotation_images) or not np.array_equal(
        one.retrieval_images, other.retrieval_images
    ):
        raise InputError("two models can be compared on the same images and sentences only")
    images = len(first.annotated)
    # Both share their denominators, so Sum is a plain sum over images and its difference too.
    share = _sum_shares(first) - _sum_shares(second)  # M
    value = float(share.sum())
    drawn = np.concatenate(
        [(first.recalls(weights) - second.recalls(weights)).sum(1) for weights in _weights(images, draws, seed)]
    )
    generator = np.random.default_rng(seed + 1)
    swapped = np.concatenate(
        [
            generator.choice([-1.0, 1.0], (min(_DRAWS_AT_ONCE, draws - start), images)) @ share
            for start in range(0, draws, _DRAWS_AT_ONCE)
        ]
    )
    as_far = np.abs(swapped) >= abs(value) - 1e-9
    return Difference(_interval(value, drawn, confidence), float((as_far.sum() + 1) / (draws + 1)))


def _sum_shares(hits: _Hits) -> NDArray[np.float64]:
    """What each image adds to Sum; M."""
    annotation = hits.annotation.sum(1) / hits.annotated.sum()
    shares: NDArray[np.float64] = 100 * (annotation + hits.retrieval.sum(1) / hits.sentences.sum())
    return shares


def _weights(images: int, draws: int, seed: int) -> list[NDArray[np.float64]]:
    """How often each image is drawn, for blocks of draws; each B, M."""
    generator = np.random.default_rng(seed)
    chances = np.full(images, 1 / images)
    return [
        generator.multinomial(images, chances, size=min(_DRAWS_AT_ONCE, draws - start)).astype(np.float64)
        for start in range(0, draws, _DRAWS_AT_ONCE)
    ]


def _interval(value: float, sample: NDArray[np.float64], confidence: float) -> Interval:
    low, high = np.quantile(sample, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Interval(float(value), float(low), float(high))
