"""The one interface, `Matcher`, and the batches that pass through it: no files, no loading."""

from smlstm.matching.batch import Batch, ImageFeatures, Saliency, Tokens, join
from smlstm.matching.matcher import Matcher, MatcherConfig, evaluating

__all__ = ["Batch", "ImageFeatures", "Matcher", "MatcherConfig", "Saliency", "Tokens", "evaluating", "join"]
