"""Which layout a folder or file has."""

import os
from pathlib import Path

from smlstm.data import coco, flickr8k, karpathy
from smlstm.data.records import Dataset
from smlstm.errors import InputError

EXPECTED = (flickr8k.EXPECTED, coco.EXPECTED, karpathy.EXPECTED)


def open_dataset(path: str | os.PathLike[str], split_scheme: str | None = None) -> Dataset:
    """Read a dataset whose layout is recognised by its file names."""
    path = Path(path)
    if not path.exists():
        raise InputError(f"{path} does not exist")
    if flickr8k.recognise(path) and split_scheme != "karpathy":
        return flickr8k.read(path)
    if coco.recognise(path):
        return coco.read(path, split_scheme)
    if karpathy.recognise(path):
        return karpathy.read(path)
    looked_for = "".join(f"\n  - {layout}" for layout in EXPECTED)
    raise InputError(f"{path} has no layout that is known. Looked for:{looked_for}")
