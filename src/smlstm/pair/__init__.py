"""A shortlister and a reranker that answer together, and what their score means; the shipped pair among them."""

from smlstm.pair.calibration import Calibration
from smlstm.pair.pair import Pair, is_pair, load_pair
from smlstm.pair.shipped import load_model, model_folder

__all__ = ["Calibration", "Pair", "is_pair", "load_model", "load_pair", "model_folder"]
