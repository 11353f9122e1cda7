"""What the engine needs of a model: sides made ready once, then all pairs of two, or chosen pairs.

Any matcher is scored through its own `score`. An sm-LSTM has a faster way for the same numbers (`fused.py`), and an
ensemble is scored through the scorers of its members.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Generic, TypeVar, cast

import torch
from torch import Tensor

from smlstm.matching.batch import Batch
from smlstm.matching.matcher import Matcher
from smlstm.model.ensemble import EncodedByMembers, Ensemble
from smlstm.model.smlstm import SMLSTM

Side = TypeVar("Side", bound=Batch)


class Scorer(ABC, Generic[Side]):
    """Scores of pairs of prepared images and prepared sentences."""

    encoding: torch.dtype = torch.float32
    """In what precision images and sentences may be encoded for it."""
    pair_width: int = 64
    """Numbers that a pair needs on its way, for the size of a tile."""

    @abstractmethod
    def prepare_images(self, images: Batch) -> Side:
        """Whatever images alone decide, from what the matcher encoded."""

    @abstractmethod
    def prepare_sentences(self, sentences: Batch) -> Side:
        """Whatever sentences alone decide, from what the matcher encoded."""

    @abstractmethod
    def grid(self, images: Side, sentences: Side) -> Tensor:
        """All pairs; m, n."""

    @abstractmethod
    def chosen(self, images: Side, sentences: Side, rows: Tensor, columns: Tensor) -> Tensor:
        """The pairs (rows[k], columns[k]) alone; rows ascend; P."""


class PlainScorer(Scorer[Batch]):
    """A matcher's own `score`, in its own precision.

    Never in bfloat16: its score would come out in bfloat16 too, whose coarse steps tie (an MNLM lost 4 points of Sum).
    """

    def __init__(self, matcher: Matcher) -> None:
        self.matcher = matcher

    def prepare_images(self, images: Batch) -> Batch:
        """Nothing to add."""
        return images

    def prepare_sentences(self, sentences: Batch) -> Batch:
        """Nothing to add."""
        return sentences

    def grid(self, images: Batch, sentences: Batch) -> Tensor:
        """All pairs; m, n."""
        return self.matcher.score(images, sentences)

    def chosen(self, images: Batch, sentences: Batch, rows: Tensor, columns: Tensor) -> Tensor:
        """Each image with its own sentences."""
        parts = [
            self.grid(images.select(slice(row, row + 1)), sentences.select(columns[part]))[0]
            for row, part in runs(rows)
        ]
        return torch.cat(parts)


class EnsembleScorer(Scorer[EncodedByMembers]):
    """The sum of the members' scores, each by its own fastest way."""

    def __init__(self, ensemble: Ensemble, dtype: torch.dtype) -> None:
        self.ensemble = ensemble
        self.scorers = [scorer_for(cast(Matcher, member), dtype) for member in ensemble.members]
        self.pair_width = max(scorer.pair_width for scorer in self.scorers)

    def prepare_images(self, images: Batch) -> EncodedByMembers:
        """As each member does."""
        members = zip(self.scorers, cast(EncodedByMembers, images).members, strict=True)
        return EncodedByMembers(tuple(scorer.prepare_images(part) for scorer, part in members))

    def prepare_sentences(self, sentences: Batch) -> EncodedByMembers:
        """As each member does."""
        members = zip(self.scorers, cast(EncodedByMembers, sentences).members, strict=True)
        return EncodedByMembers(tuple(scorer.prepare_sentences(part) for scorer, part in members))

    def grid(self, images: EncodedByMembers, sentences: EncodedByMembers) -> Tensor:
        """All pairs; m, n."""
        parts = zip(self.scorers, images.members, sentences.members, strict=True)
        return self._sum([scorer.grid(first, second) for scorer, first, second in parts])

    def chosen(self, images: EncodedByMembers, sentences: EncodedByMembers, rows: Tensor, columns: Tensor) -> Tensor:
        """Some pairs; P."""
        parts = zip(self.scorers, images.members, sentences.members, strict=True)
        return self._sum([scorer.chosen(first, second, rows, columns) for scorer, first, second in parts])

    def _sum(self, scores: list[Tensor]) -> Tensor:
        means, deviations = self.ensemble.means.tolist(), self.ensemble.deviations.tolist()
        terms = [(part - mean) / deviation for part, mean, deviation in zip(scores, means, deviations, strict=True)]
        return torch.stack(terms).sum(0)


def scorer_for(matcher: Matcher, dtype: torch.dtype) -> Scorer[Batch]:
    """The fastest way to score with this matcher; float64 models keep their own way and its digits."""
    from smlstm.scoring.fused import FusedScorer  # noqa: PLC0415 - it is a Scorer itself

    scorer: Scorer[Batch]
    if isinstance(matcher, Ensemble):
        scorer = cast(Scorer[Batch], EnsembleScorer(matcher, dtype))
    elif isinstance(matcher, SMLSTM) and next(matcher.parameters()).dtype == torch.float32:
        scorer = cast(Scorer[Batch], FusedScorer(matcher, dtype))
    else:
        scorer = PlainScorer(matcher)
    return scorer


def runs(rows: Tensor) -> Iterator[tuple[int, slice]]:
    """Each value of ascending rows and where it stands."""
    values, counts = torch.unique_consecutive(rows, return_counts=True)
    start = 0
    for value, count in zip(values.tolist(), counts.tolist(), strict=True):
        yield value, slice(start, start + count)
        start += count
