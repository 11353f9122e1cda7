"""Which layout a folder or file has. A new dataset is one file beside this one and one name in `LAYOUTS`."""

import os
from pathlib import Path
from typing import Protocol, cast

from smlstm.data import coco, cocoqa, flickr8k, flickr30k, karpathy, own, precomputed
from smlstm.data.features import Features
from smlstm.data.header import is_store
from smlstm.data.records import Dataset, without_empty_captions
from smlstm.data.store import FeatureStore
from smlstm.errors import ConfigurationError, InputError


class Layout(Protocol):
    """What the file of a dataset has."""

    EXPECTED: str
    SCHEMES: tuple[str, ...]

    def recognise(self, path: Path) -> bool:
        """Whether a path has this layout."""

    def read(self, path: Path, scheme: str | None = None) -> Dataset:
        """Read it, with the splits of a scheme."""


# In this order: a folder that has captions and photos is not taken for a folder of photos.
LAYOUTS = cast(tuple[Layout, ...], (flickr8k, flickr30k, coco, cocoqa, karpathy, precomputed, own))


def open_dataset(path: str | os.PathLike[str], split_scheme: str | None = None) -> Dataset:
    """Read a dataset whose layout is recognised by its file names.

    `split_scheme` chooses between published splits of the same photos: official, kiros or karpathy.
    """
    path = Path(path)
    if is_store(path):
        raise InputError(f"{path} is a feature store, not a dataset: give the folder of the photos and captions")
    try:
        if not path.exists():
            raise InputError(f"{path} does not exist")
        layout = next((layout for layout in LAYOUTS if layout.recognise(path)), None)
        if layout is not None:
            if split_scheme is not None and split_scheme not in layout.SCHEMES:
                known = ", ".join(layout.SCHEMES) or "none to choose from"
                raise ConfigurationError(f'{path} has no split scheme "{split_scheme}"; this layout has: {known}')
            return without_empty_captions(layout.read(path, split_scheme))
    except OSError as error:
        raise InputError(f"{error.filename or path} cannot be read: {error.strerror}") from None
    looked_for = "".join(f"\n  - {layout.EXPECTED}" for layout in LAYOUTS)
    raise InputError(f"{path} has no layout that is known. Looked for:{looked_for}")


def open_features(path: str | os.PathLike[str]) -> Features:
    """Open features for reading: a feature store, or precomputed ones in the layout of SCAN and VSE++."""
    path = Path(path)
    if is_store(path):
        return FeatureStore.open(path)
    if precomputed.recognise(path):
        return precomputed.PrecomputedFeatures(path)
    raise InputError(f"{path} has no features: it is neither a feature store nor {precomputed.EXPECTED}")
