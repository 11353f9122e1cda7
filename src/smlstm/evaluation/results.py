"""Results: the numbers of one similarity matrix with their intervals, and tests between several."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from smlstm.evaluation.intervals import Difference, Interval, compare, metric_intervals
from smlstm.evaluation.protocols import fold_ranks, mean_of
from smlstm.evaluation.ranks import BothWays, Ranks, both_ways, ranks

Protocol = Literal["all", "folds"]


@dataclass(frozen=True, eq=False)
class Result:
    """One model's numbers."""

    name: str
    metrics: BothWays
    intervals: dict[str, Interval]
    """95 % intervals, by the names of `metric_intervals`."""
    folds: tuple[Ranks, ...]
    """The ranks within each fold; one where everything is ranked together."""

    def to_dict(self) -> dict[str, Any]:
        """Give the numbers as JSON would write them."""
        return {
            "model": self.name,
            "annotation": asdict(self.metrics.annotation),
            "retrieval": asdict(self.metrics.retrieval),
            "sum": self.metrics.sum,
            "intervals": {name: [interval.low, interval.high] for name, interval in self.intervals.items()},
        }


@dataclass(frozen=True)
class Comparison:
    """A paired test between two results on the same images and sentences."""

    one: str
    other: str
    found: Difference

    def to_dict(self) -> dict[str, Any]:
        """Give the numbers as JSON would write them."""
        difference = self.found.difference
        return {
            "model": self.one,
            "against": self.other,
            "sum_difference": difference.value,
            "interval": [difference.low, difference.high],
            "p": self.found.p,
        }


def measure(
    name: str, scores: NDArray[np.floating], image_of: NDArray[np.integer], protocol: Protocol = "all"
) -> Result:
    """Rank, measure, and say how far the numbers can be trusted."""
    folds = fold_ranks(scores, image_of) if protocol == "folds" else [ranks(scores, image_of)]
    return result_of(name, folds)


def result_of(name: str, folds: Sequence[Ranks]) -> Result:
    """The numbers of ranks that are known."""
    return Result(name, mean_of([both_ways(part) for part in folds]), metric_intervals(folds), tuple(folds))


def comparisons(results: Sequence[Result], every_pair: bool = False) -> list[Comparison]:
    """Each result against the first, or every one against every one before it."""
    pairs = [(later, earlier) for earlier, later in combinations(results, 2)]
    if not every_pair:
        pairs = [(later, earlier) for later, earlier in pairs if earlier is results[0]]
    return [Comparison(one.name, other.name, compare(one.folds, other.folds)) for one, other in pairs]
