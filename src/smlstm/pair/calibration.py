"""From scores to match probabilities: four numbers, fitted on dev.

    p = sig((a + a' / n) s + b + b' / n)       s = reranker's score + w x shortlist's cosine

n counts the words of the sentence that name something, up to 8: "dog" and "a dog" have one, and what a score says of
one word is not what it says of a whole sentence.

Fitted by logistic regression on all pairs of dev; a matched pair is an image and a caption that was written of it, or
a short sentence and an image of which some caption says it. How often a pair matches depends on how many photos there
are, so the fit needs a word on that: matched and mismatched pairs are weighted as if one photo in a hundred matched
(`PRIOR`). p = 0.5 then means: of all pairs with this score, in libraries where one photo in a hundred is right, half
match. Sentences of each n count alike.

w makes both scores count alike: it is the ratio of their deviations, not tuned; or it is 0, where the reranker's score
stands alone.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from pydantic import BaseModel, ConfigDict, Field, model_validator
from torch import Tensor

from smlstm.errors import InputError
from smlstm.text import tokenise
from smlstm.text.function_words import is_function_word

PRIOR = 0.01
UNLIKELY = 0.05
"""Below this probability even the best photo is said not to be likely."""
_BINS = 20_000
_STEPS = 100
_MOST_WORDS = 8

Scores = npt.NDArray[np.float32]
Numbers = npt.NDArray[np.float64]
Relevant = npt.NDArray[np.bool_]


def words_that_say(sentence: str) -> int:
    """n: the words of a sentence that name something, from 1 to 8.

    >>> [words_that_say(each) for each in ("dog", "a dog", "a brown dog is running on the beach")]
    [1, 1, 4]
    """
    count = sum(not is_function_word(word) for word in tokenise(sentence))
    return min(max(count, 1), _MOST_WORDS)


class Calibration(BaseModel):
    """From a score to a match probability."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    scale: float = Field(default=1.0, gt=0, allow_inf_nan=False, description="a")
    offset: float = Field(default=0.0, allow_inf_nan=False, description="b")
    short_scale: float = Field(default=0.0, allow_inf_nan=False, description="a'")
    short_offset: float = Field(default=0.0, allow_inf_nan=False, description="b'")
    shortlist_weight: float = Field(default=0.0, ge=0, allow_inf_nan=False, description="w")

    @model_validator(mode="after")
    def _higher_is_likelier(self) -> "Calibration":
        if self.scale + self.short_scale <= 0:
            raise ValueError(
                f"scale and short_scale together must be above 0, not {self.scale + self.short_scale:g}: a higher "
                "score means a likelier match"
            )
        return self

    def log_odds(self, scores: Tensor, sentences: Sequence[str]) -> Tensor:
        """How much likelier a match is than none, as a logarithm, of scores (M, N) with N sentences."""
        share = torch.tensor([1 / words_that_say(each) for each in sentences], dtype=torch.float64)
        return (self.scale + self.short_scale * share) * scores.double() + self.offset + self.short_offset * share

    def probability(self, score: float, sentence: str) -> float:
        """The share of pairs of this score and sentences like this one that match."""
        share = 1 / words_that_say(sentence)
        odds = (self.scale + self.short_scale * share) * score + self.offset + self.short_offset * share
        return 1 / (1 + math.exp(-odds)) if odds > -700 else 0.0


@dataclass(frozen=True, eq=False)
class ScoredPairs:
    """Scores of matched pairs, and histograms of those of all others, one for each n."""

    matched: Numbers
    matched_words: Numbers  # n of each
    others: Numbers  # the bins' middles
    others_words: Numbers  # n of each bin
    counts: Numbers

    @classmethod
    def of(cls, matrices: Sequence[tuple[Scores, Relevant, Sequence[str]]]) -> "ScoredPairs":
        """From matrices of scores (images, sentences), which of their pairs match, and the sentences."""
        low = min((float(scores.min()) for scores, _, _ in matrices if scores.size), default=0.0)
        high = max((float(scores.max()) for scores, _, _ in matrices if scores.size), default=1.0)
        edges = np.linspace(low, high + 1e-9, _BINS + 1)
        matched: list[Numbers] = []
        matched_words: list[Numbers] = []
        counts = np.zeros((_MOST_WORDS, _BINS))
        for scores, relevant, sentences in matrices:
            words = np.array([words_that_say(each) for each in sentences])
            for said in np.unique(words):
                own, right = scores[:, words == said], relevant[:, words == said]
                matched.append(own[right].astype(np.float64))
                matched_words.append(np.full(len(matched[-1]), float(said)))
                counts[said - 1] += np.histogram(own[~right], edges)[0]
        number, place = np.nonzero(counts)
        return cls(
            np.concatenate([np.zeros(0), *matched]),
            np.concatenate([np.zeros(0), *matched_words]),
            ((edges[1:] + edges[:-1]) / 2)[place],
            (number + 1).astype(np.float64),
            counts[number, place],
        )

    @property
    def both(self) -> bool:
        """Whether some n has matched pairs and others."""
        return bool(np.isin(self.matched_words, self.others_words).any())

    def weights(self, prior: float) -> tuple[Numbers, Numbers]:
        """What each matched pair and each bin counts, one in all; each n as much, if it has both."""
        if not self.both:
            raise InputError("a calibration needs matched and mismatched pairs: dev has too few images")
        right, wrong = np.zeros(len(self.matched)), np.zeros(len(self.counts))
        for said in np.unique(self.matched_words):
            own, others = self.matched_words == said, self.others_words == said
            if others.any():
                right[own] = prior / own.sum()
                wrong[others] = (1 - prior) * self.counts[others] / self.counts[others].sum()
        total = right.sum() + wrong.sum()
        return right / total, wrong / total


def one_each(image_of: npt.NDArray[np.int64], images: int) -> Relevant:
    """Which pairs match where every sentence describes one image; images, sentences."""
    relevant = np.zeros((images, len(image_of)), np.bool_)
    relevant[image_of, np.arange(len(image_of))] = True
    return relevant


def weight_of(shortlist: Sequence[Scores], reranker: Sequence[Scores]) -> float:
    """w: with it, the shortlist's scores are as wide as the reranker's."""
    wide = math.sqrt(sum(float(scores.var()) for scores in reranker))
    narrow = math.sqrt(sum(float(scores.var()) for scores in shortlist))
    return wide / narrow if narrow > 0 else 0.0


def fit_calibration(pairs: ScoredPairs, shortlist_weight: float, prior: float = PRIOR) -> Calibration:
    """Logistic regression of "these match" on the score, by Newton's method.

    Where lines that depend on n would cross zero slope for some n, one line serves all.
    """
    several = len(np.unique(pairs.matched_words)) > 2
    found = (several and _fit(pairs, prior, True)) or _fit(pairs, prior, False)
    if found is None:
        raise InputError("higher scores do not mean likelier matches on dev: this model has not learned to match")
    return found.model_copy(update={"shortlist_weight": shortlist_weight})


def _fit(pairs: ScoredPairs, prior: float, by_words: bool) -> Calibration | None:
    """The four numbers, or the two that do not depend on n; None where a higher score is not likelier for each n."""
    right, wrong = pairs.weights(prior)
    scores, words = _of_all(pairs)
    share = 1 / words
    target = np.concatenate([np.ones(len(right)), np.zeros(len(wrong))])
    weight = np.concatenate([right, wrong])
    mean = float(np.average(scores, weights=weight))
    width = math.sqrt(float(np.average((scores - mean) ** 2, weights=weight))) or 1.0
    design = np.stack([(scores - mean) / width, np.ones_like(scores)], 1)
    if by_words:
        design = np.concatenate([design, design * share[:, None]], 1)
    found = np.zeros(design.shape[1])
    found[1] = math.log(prior / (1 - prior))
    for _ in range(_STEPS):
        predicted = _sigmoid(design @ found)
        slope = design.T @ (weight * (target - predicted))
        curve = (design * (weight * predicted * (1 - predicted))[:, None]).T @ design + 1e-12 * np.eye(len(found))
        step = np.linalg.solve(curve, slope)
        found = found + step * min(1.0, 2.0 / (float(np.abs(step).max()) + 1e-12))
        if float(np.abs(step).max()) < 1e-9:
            break
    scale, short = float(found[0]) / width, float(found[2]) / width if by_words else 0.0
    if scale <= 0 or scale + short <= 0:
        return None
    return Calibration(
        scale=scale,
        offset=float(found[1]) - scale * mean,
        short_scale=short,
        short_offset=float(found[3]) - short * mean if by_words else 0.0,
    )


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
    scores, words = _of_all(pairs)
    scale = calibration.scale + calibration.short_scale / words
    predicted = _sigmoid(scale * scores + calibration.offset + calibration.short_offset / words)
    bins = np.minimum((predicted * 10).astype(np.int64), 9)
    total = np.bincount(bins, weight, 10)
    some = total > 0
    expected = np.bincount(bins, weight * predicted, 10)[some] / total[some]
    seen = np.bincount(bins, matches, 10)[some] / total[some]
    error = float((total[some] * np.abs(expected - seen)).sum())
    return Reliability(
        [round(float(value), 4) for value in expected], [round(float(value), 4) for value in seen], error
    )


def _of_all(pairs: ScoredPairs) -> tuple[Numbers, Numbers]:
    """Scores and n, of matched pairs and then of bins."""
    scores = np.concatenate([pairs.matched, pairs.others])
    return scores, np.concatenate([pairs.matched_words, pairs.others_words])


def _sigmoid(values: Numbers) -> Numbers:
    return 1 / (1 + np.exp(-np.clip(values, -700, 700)))
