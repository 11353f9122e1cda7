"""Rank correlations of many numbers with few ratings; the same numbers as SciPy's, which is 143 MB for these three."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class Correlation:
    """How far scores and ratings agree, -1 to 1; not a number where all scores or all ratings are equal."""

    kendall_b: float
    kendall_c: float
    spearman: float


def correlation(scores: Numbers, ratings: Numbers) -> Correlation:
    """Kendall's tau-b and tau-c, and Spearman's rho; there must be two scores and two ratings at least that differ."""
    count = len(scores)
    (score_ranks, score_ties), (rating_ranks, rating_ties) = _ranks(scores), _ranks(ratings)
    agreement = _agreement(scores, ratings)
    pairs = count * (count - 1) // 2
    untied = [pairs - int((ties * (ties - 1) // 2).sum()) for ties in (score_ties, rating_ties)]
    levels = min(len(score_ties), len(rating_ties))
    return Correlation(
        agreement / np.sqrt(untied[0]) / np.sqrt(untied[1]),
        2 * agreement / (count**2 * (levels - 1) / levels),
        float(np.corrcoef(score_ranks, rating_ranks)[0, 1]),
    )


def _agreement(scores: Numbers, ratings: Numbers) -> int:
    """Pairs that scores and ratings put in the same order, minus those in opposite orders."""
    found = 0
    for rating in np.unique(ratings):
        here, below = scores[ratings == rating], np.sort(scores[ratings < rating])
        smaller, larger = np.searchsorted(below, here, "left"), len(below) - np.searchsorted(below, here, "right")
        found += int((smaller - larger).sum())
    return found


def _ranks(values: Numbers) -> tuple[Numbers, NDArray[np.int64]]:
    """Each value's rank, the mean of its ties, and how many there are of each value."""
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[places], counts
