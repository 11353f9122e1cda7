"""Results: the numbers of one similarity matrix with their intervals, and tests between several."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from smlstm.evaluation.intervals import Difference, Interval, compare, recall_intervals
from smlstm.evaluation.protocols import fold_ranks, mean_of, pooled
from smlstm.evaluation.ranks import BothWays, Ranks, both_ways, ranks

Protocol = Literal["all", "folds"]


@dataclass(frozen=True, eq=False)
class Result:
    """One model's numbers."""

    name: str
    metrics: BothWays
    intervals: dict[str, Interval]
    """95 % intervals of the hit rates and of Sum, by the names of `recall_intervals`."""
    ranks: Ranks

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
    """Rank, measure, and say how far the numbers can be trusted.

    With folds, intervals are drawn from the images of all folds together, each with its rank in its own fold.
    """
    if protocol == "folds":
        parts = fold_ranks(scores, image_of)
        found, metrics = pooled(parts), mean_of([both_ways(part) for part in parts])
    else:
        found = ranks(scores, image_of)
        metrics = both_ways(found)
    return Result(name, metrics, recall_intervals(found), found)


def comparisons(results: Sequence[Result], every_pair: bool = False) -> list[Comparison]:
    """Each result against the first, or every one against every one before it."""
    pairs = [(later, earlier) for earlier, later in combinations(results, 2)]
    if not every_pair:
        pairs = [(later, earlier) for later, earlier in pairs if earlier is results[0]]
    return [Comparison(one.name, other.name, compare(one.ranks, other.ranks)) for one, other in pairs]
