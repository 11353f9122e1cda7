"""Datasets in, features stored: readers of public datasets and of anyone's own, and the feature store."""

from smlstm.data.features import Features, FeatureSpec
from smlstm.data.layouts import open_dataset, open_features
from smlstm.data.records import Dataset, Record
from smlstm.data.store import FeatureStore

__all__ = ["Dataset", "FeatureSpec", "FeatureStore", "Features", "Record", "open_dataset", "open_features"]
