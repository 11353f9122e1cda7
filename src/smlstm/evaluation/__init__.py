"""How good a matcher is: ranks and metrics, how far to trust them, protocols."""

from smlstm.evaluation.intervals import Difference, Interval, compare, recall_intervals
from smlstm.evaluation.protocols import evaluate_all, evaluate_folds
from smlstm.evaluation.ranks import BothWays, Metrics, Ranks, both_ways, metrics, ranks

__all__ = [
    "BothWays",
    "Difference",
    "Interval",
    "Metrics",
    "Ranks",
    "both_ways",
    "compare",
    "evaluate_all",
    "evaluate_folds",
    "metrics",
    "ranks",
    "recall_intervals",
]
