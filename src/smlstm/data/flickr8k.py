"""Flickr8k (Hodosh et al. 2013): `Flickr8k.token.txt` and one list of image names for each split."""

from pathlib import Path

from smlstm.data import karpathy
from smlstm.data.files import first_existing, image_folder, read_names
from smlstm.data.records import Dataset, assemble
from smlstm.data.tokens_file import read_token_file
from smlstm.errors import InputError

EXPECTED = "Flickr8k: Flickr8k.token.txt with Flickr_8k.trainImages.txt, .devImages.txt, .testImages.txt"
SCHEMES = ("official", "karpathy")
_TOKENS = ("Flickr8k.token.txt", "Flickr8k_text/Flickr8k.token.txt")
_FOLDERS = ("Images", "Flicker8k_Dataset", "Flickr8k_Dataset", "images")
_LISTS = {split: f"Flickr_8k.{split}Images.txt" for split in ("train", "dev", "test")}


def recognise(path: Path) -> bool:
    """Whether a folder has Flickr8k's token file."""
    return first_existing(path, _TOKENS) is not None


def read(root: Path, scheme: str | None = None) -> Dataset:
    """Read the images of the official split lists that are there, or of Karpathy's file."""
    if scheme == "karpathy":
        return karpathy.read(root / "dataset_flickr8k.json")
    tokens = first_existing(root, _TOKENS)
    if tokens is None:
        raise InputError(f"{root} has no {_TOKENS[0]}; expected {EXPECTED}")
    lists = {split: tokens.parent / name for split, name in _LISTS.items() if (tokens.parent / name).exists()}
    if not lists:
        raise InputError(f"{tokens.parent} has none of the split lists {', '.join(_LISTS.values())}")
    splits = {split: read_names(path) for split, path in lists.items()}
    records, notes = assemble(read_token_file(tokens), splits, image_folder(root, _FOLDERS))
    return Dataset("flickr8k", root, records, notes)
