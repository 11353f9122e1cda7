"""Ranks and metrics of a similarity matrix.

Annotation (image to sentence): the rank of the best of an image's own sentences among all others' sentences.
Retrieval (sentence to image): the rank of the sentence's image among all images.

A rank is 1 plus the number of wrong candidates that score as high or higher, counted, not sorted: ties are
counted against the model, so equal scores everywhere earn nothing. A score that is not a number counts as a
miss on both sides of the comparison.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from smlstm.errors import InputError

_CHUNK = 1 << 24
"""Scores compared at a time: bounds the memory whatever the size of the matrix."""


@dataclass(frozen=True)
class Ranks:
    """1-based ranks, one an image (that has sentences) and one a sentence, and whose they are."""

    annotation: NDArray[np.int64]
    retrieval: NDArray[np.int64]
    annotation_images: NDArray[np.int64]
    """The row of each annotation rank; images without sentences have none."""
    retrieval_images: NDArray[np.int64]
    """The row of each sentence's image."""


@dataclass(frozen=True)
class Metrics:
    """The field's numbers for one direction: hit rates in percent, median and mean rank, mean reciprocal rank."""

    r1: float
    r5: float
    r10: float
    median: float
    mean: float
    mrr: float

    @property
    def sum(self) -> float:
        """R@1 + R@5 + R@10; the paper's Sum adds both directions."""
        return self.r1 + self.r5 + self.r10


@dataclass(frozen=True)
class BothWays:
    """The metrics of both directions."""

    annotation: Metrics
    retrieval: Metrics

    @property
    def sum(self) -> float:
        """The paper's Sum: the six hit rates."""
        return self.annotation.sum + self.retrieval.sum


def ranks(scores: NDArray[np.floating], image_of: NDArray[np.integer]) -> Ranks:
    """Ranks both ways; scores are M, N, and `image_of` (N) gives the row of each sentence's image."""
    images, sentences = scores.shape
    rows_of: NDArray[np.int64] = np.asarray(image_of).astype(np.int64)
    if rows_of.shape != (sentences,):
        raise InputError(f"{sentences} columns of scores need {sentences} image positions, not {rows_of.shape}")
    if sentences and not (rows_of.min() >= 0 and rows_of.max() < images):
        raise InputError(f"a sentence names an image outside the {images} rows of scores")

    own = np.asarray(scores[rows_of, np.arange(sentences)])  # N: each sentence with its own image
    own = np.where(np.isnan(own), -np.inf, own)
    best = np.full(images, -np.inf)
    np.maximum.at(best, rows_of, own)
    described = np.flatnonzero(np.bincount(rows_of, minlength=images))

    annotation = np.ones(images, dtype=np.int64)
    retrieval = np.ones(sentences, dtype=np.int64)
    rows = max(1, _CHUNK // max(1, sentences))
    for start in range(0, images, rows):
        block = scores[start : start + rows]
        place = np.arange(start, start + len(block))[:, None]
        foreign = rows_of[None, :] != place
        # "not below" rather than "at least": NaN among the wrong candidates also counts against the model.
        annotation[start : start + rows] += (~(block < best[start : start + rows, None]) & foreign).sum(1)
        retrieval += (~(block < own[None, :]) & foreign).sum(0)
    return Ranks(annotation[described], retrieval, described, rows_of)


def metrics(ranks: NDArray[np.int64]) -> Metrics:
    """The numbers of one direction."""
    if len(ranks) == 0:
        raise InputError("there is nothing to measure: no image has a sentence")

    def hits(k: int) -> float:
        return float(100 * np.mean(ranks <= k))

    return Metrics(
        hits(1), hits(5), hits(10), float(np.median(ranks)), float(np.mean(ranks)), float(np.mean(1 / ranks))
    )


def both_ways(found: Ranks) -> BothWays:
    """The numbers of both directions."""
    return BothWays(metrics(found.annotation), metrics(found.retrieval))
