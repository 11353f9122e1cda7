"""How good a matcher is: ranks and metrics."""

from smlstm.evaluation.ranks import Metrics, Ranks, metrics, ranks

__all__ = ["Metrics", "Ranks", "metrics", "ranks"]
