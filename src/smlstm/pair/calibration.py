"""From scores to match probabilities: two numbers, fitted on dev.

    p = sig(a s + b)       s = reranker's score + w x shortlist's cosine

Fitted by logistic regression on all pairs of dev; a matched pair is an image and a caption that was written of it. How
often a pair matches depends on how many photos there are, so the fit needs a word on that: matched and mismatched
pairs are weighted as if one photo in a hundred matched (`PRIOR`). p = 0.5 then means: of all pairs with this score, in
libraries where one photo in a hundred is right, half match.

w makes both scores count alike: it is the ratio of their deviations, not tuned; or it is 0, where the reranker's score
stands alone.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor

from smlstm.errors import InputError

PRIOR = 0.01
UNLIKELY = 0.05
"""Below this probability even the best photo is said not to be likely."""
_BINS = 20_000
_STEPS = 100

Scores = npt.NDArray[np.float32]
Numbers = npt.NDArray[np.float64]


class Calibration(BaseModel):
    """From a score to a match probability."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    scale: float = Field(default=1.0, gt=0, allow_inf_nan=False, description="a")
    offset: float = Field(default=0.0, allow_inf_nan=False, description="b")
    shortlist_weight: float = Field(default=0.0, ge=0, allow_inf_nan=False, description="w")

    def log_odds(self, scores: Tensor) -> Tensor:
        """How much likelier a match is than none, as a logarithm."""
        return self.scale * scores.double() + self.offset

    def probability(self, score: float) -> float:
        """The share of pairs with this score that match."""
        odds = self.scale * score + self.offset
        return 1 / (1 + math.exp(-odds)) if odds > -700 else 0.0


@dataclass(frozen=True, eq=False)
class ScoredPairs:
    """Scores of matched pairs, and a histogram of those of all others."""

    matched: Numbers
    others: Numbers  # the bins' middles
    counts: Numbers

    @classmethod
    def of(cls, matrices: Sequence[tuple[Scores, npt.NDArray[np.int64]]]) -> "ScoredPairs":
        """From matrices of scores (images, captions), each with the image that every caption describes."""
        low = min(float(scores.min()) for scores, _ in matrices)
        high = max(float(scores.max()) for scores, _ in matrices)
        counts, edges = np.zeros(_BINS), np.linspace(low, high + 1e-9, _BINS + 1)
        matched = []
        for scores, image_of in matrices:
            own = scores[image_of, np.arange(len(image_of))].astype(np.float64)
            matched.append(own)
            counts += np.histogram(scores, edges)[0] - np.histogram(own, edges)[0]
        return cls(np.concatenate(matched), (edges[1:] + edges[:-1]) / 2, counts)

    def weights(self, prior: float) -> tuple[Numbers, Numbers]:
        """What each matched pair and each bin counts, one in all."""
        if not len(self.matched) or not self.counts.sum():
            raise InputError("a calibration needs matched and mismatched pairs: dev has too few images")
        return np.full(len(self.matched), prior / len(self.matched)), (1 - prior) * self.counts / self.counts.sum()


def weight_of(shortlist: Sequence[Scores], reranker: Sequence[Scores]) -> float:
    """w: with it, the shortlist's scores are as wide as the reranker's."""
    wide = math.sqrt(sum(float(scores.var()) for scores in reranker))
    narrow = math.sqrt(sum(float(scores.var()) for scores in shortlist))
    return wide / narrow if narrow > 0 else 0.0


def fit_calibration(pairs: ScoredPairs, shortlist_weight: float, prior: float = PRIOR) -> Calibration:
    """Logistic regression of "these match" on the score, by Newton's method."""
    right, wrong = pairs.weights(prior)
    scores = np.concatenate([pairs.matched, pairs.others])
    target = np.concatenate([np.ones(len(right)), np.zeros(len(wrong))])
    weight = np.concatenate([right, wrong])
    mean = float(np.average(scores, weights=weight))
    width = math.sqrt(float(np.average((scores - mean) ** 2, weights=weight))) or 1.0
    design = np.stack([(scores - mean) / width, np.ones_like(scores)], 1)
    found = np.array([0.0, math.log(prior / (1 - prior))])
    for _ in range(_STEPS):
        predicted = _sigmoid(design @ found)
        slope = design.T @ (weight * (target - predicted))
        curve = (design * (weight * predicted * (1 - predicted))[:, None]).T @ design + 1e-12 * np.eye(2)
        step = np.linalg.solve(curve, slope)
        found = found + step * min(1.0, 2.0 / (float(np.abs(step).max()) + 1e-12))
        if float(np.abs(step).max()) < 1e-9:
            break
    scale = float(found[0]) / width
    if not scale > 0:
        raise InputError("higher scores do not mean likelier matches on dev: this model has not learned to match")
    return Calibration(scale=scale, offset=float(found[1]) - scale * mean, shortlist_weight=shortlist_weight)


@dataclass(frozen=True)
class Reliability:
    """How far probabilities can be believed."""

    expected: list[float]
    """Mean probability in each tenth from 0 to 1 that has pairs, from unlikely to likely."""
    seen: list[float]
    """The share that matched there."""
    error: float
    """Mean distance of the two over all pairs, each counted as the prior says."""


def reliability(pairs: ScoredPairs, calibration: Calibration, prior: float = PRIOR) -> Reliability:
    """Compare probabilities with what is true, in bins of equal width."""
    right, wrong = pairs.weights(prior)
    weight = np.concatenate([right, wrong])
    matches = np.concatenate([right, np.zeros(len(wrong))])
    predicted = _sigmoid(calibration.scale * np.concatenate([pairs.matched, pairs.others]) + calibration.offset)
    bins = np.minimum((predicted * 10).astype(np.int64), 9)
    total = np.bincount(bins, weight, 10)
    some = total > 0
    expected = np.bincount(bins, weight * predicted, 10)[some] / total[some]
    seen = np.bincount(bins, matches, 10)[some] / total[some]
    error = float((total[some] * np.abs(expected - seen)).sum())
    return Reliability(
        [round(float(value), 4) for value in expected], [round(float(value), 4) for value in seen], error
    )


def _sigmoid(values: Numbers) -> Numbers:
    return 1 / (1 + np.exp(-np.clip(values, -700, 700)))
