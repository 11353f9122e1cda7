"""How good a matcher is: ranks and metrics, how far to trust them, protocols.

Numbers of matrices are here. What needs models, data and photos is in its own file: `evaluate` (saved models to a
report), `matrices` (saved similarities), `judgement` (agreement with people's ratings).
"""

from smlstm.evaluation.intervals import Difference, Interval, compare, metric_intervals
from smlstm.evaluation.ranks import BothWays, Metrics, Ranks, both_ways, metrics, ranks
from smlstm.evaluation.results import Comparison, Result, comparisons, measure, result_of

__all__ = [
    "BothWays",
    "Comparison",
    "Difference",
    "Interval",
    "Metrics",
    "Ranks",
    "Result",
    "both_ways",
    "compare",
    "comparisons",
    "measure",
    "metric_intervals",
    "metrics",
    "ranks",
    "result_of",
]
