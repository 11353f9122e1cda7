"""Flickr8k (Hodosh et al. 2013), as published and as Kaggle has it.

Captions: `Flickr8k.token.txt` (as published) or `captions.txt` (columns image and caption).
Splits: `official` are lists of image names, `Flickr_8k.trainImages.txt` and so on; `karpathy` is
`dataset_flickr8k.json`. Lists are preferred.
"""

import re
from itertools import islice
from pathlib import Path

from smlstm.data import karpathy
from smlstm.data.caption_table import read_captions, read_table, why_no_captions
from smlstm.data.files import first_existing, image_folder, read_names
from smlstm.data.records import Dataset, assemble
from smlstm.data.tokens_file import read_token_file
from smlstm.errors import InputError

EXPECTED = (
    "Flickr8k: Flickr8k.token.txt (or captions.txt) with Flickr_8k.trainImages.txt, .devImages.txt, .testImages.txt"
)
SCHEMES = ("official", "karpathy")
_TOKENS = ("Flickr8k.token.txt", "Flickr8k_text/Flickr8k.token.txt")
_TABLE = "captions.txt"
_KARPATHY = "dataset_flickr8k.json"
_FOLDERS = ("Images", "Flicker8k_Dataset", "Flickr8k_Dataset", "images")
_LISTS = {split: f"Flickr_8k.{split}Images.txt" for split in ("train", "dev", "test")}
# 1000268201_693b08cb0e.jpg; the names of Flickr30k have the number alone.
_IMAGE_NAME = re.compile(r"\d+_[0-9a-f]{10}\.jpg")


def recognise(path: Path) -> bool:
    """Whether a folder has Flickr8k's token file, or a table of captions of images that are named like its own."""
    if first_existing(path, _TOKENS) is not None:
        return True
    table = path / _TABLE
    if not table.is_file() or why_no_captions(table) is not None:
        return False
    return any(_IMAGE_NAME.fullmatch(row.path) for row in islice(read_table(table, []), 1))


def read(root: Path, scheme: str | None = None) -> Dataset:
    """Read the images of the split lists that are there, or of Karpathy's file."""
    tokens = first_existing(root, _TOKENS)
    home = root if tokens is None else tokens.parent
    lists = {split: home / name for split, name in _LISTS.items() if (home / name).exists()}
    listing = root / _KARPATHY
    if scheme == "karpathy" or (scheme is None and not lists and listing.exists()):
        if not listing.exists():
            raise InputError(f"{root} has no {_KARPATHY}, which holds Karpathy's splits")
        return karpathy.read(listing)
    notes: list[str] = []
    captions = read_captions(root / _TABLE, notes) if tokens is None else read_token_file(tokens)
    splits = {split: read_names(path) for split, path in lists.items()}
    if not lists:
        if tokens is not None or scheme == "official":
            raise InputError(f"{home} has none of the split lists {', '.join(_LISTS.values())}")
        splits = {"train": list(captions)}
        notes.append("there are no split lists: all images count as train")
    records, more = assemble(captions, splits, image_folder(root, _FOLDERS))
    return Dataset("flickr8k", root, records, (*notes, *more))
