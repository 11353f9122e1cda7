"""Flickr30k (Young et al. 2014), as published and as it is passed around.

Captions: `results_20130124.token` (as published), `results.csv` (columns parted by `|`) or `captions.txt` (comma).
Splits: `kiros` are lists of image names, `flickr30k_train.txt` or `train.txt`, with dev and test likewise
(28000/1000/1000 in the paper); `karpathy` is `dataset_flickr30k.json` (29000/1014/1000). Lists are preferred.
"""

from pathlib import Path

from smlstm.data import karpathy
from smlstm.data.caption_table import read_captions, why_no_captions
from smlstm.data.files import first_existing, image_folder, read_lines, read_split_lists
from smlstm.data.records import Dataset, assemble
from smlstm.data.tokens_file import read_token_file
from smlstm.errors import InputError

EXPECTED = "Flickr30k: results_20130124.token (or results.csv, captions.txt) with split lists such as train.txt"
SCHEMES = ("kiros", "karpathy")
_CAPTIONS = ("results_20130124.token", "results.csv", "captions.txt")
_KARPATHY = ("dataset_flickr30k.json", "dataset_flickr8k.json")
_FOLDERS = ("flickr30k-images", "flickr30k_images", "Images", "images")


def recognise(path: Path) -> bool:
    """Whether a folder has one of Flickr30k's caption files."""
    file = first_existing(path, _CAPTIONS)
    if file is None or file.suffix == ".token":
        return file is not None
    # Anyone may call a table results.csv, and Flickr30k's is parted by |; captions.txt may be anyone's notes.
    return why_no_captions(file) is None and (file.name != "results.csv" or "|" in next(read_lines(file), ""))


def read(root: Path, scheme: str | None = None) -> Dataset:
    """Read Flickr30k with the splits that are there; without any, all of it is training data."""
    listing = first_existing(root, _KARPATHY)
    lists = read_split_lists(root, ("flickr30k_", "f30k_", ""))
    if scheme == "karpathy" or (scheme is None and listing and not lists):
        if listing is None:
            raise InputError(f"{root} has no {_KARPATHY[0]}, which holds Karpathy's splits")
        return karpathy.read(listing)
    file = first_existing(root, _CAPTIONS)
    if file is None:
        raise InputError(f"{root} has none of {', '.join(_CAPTIONS)}; expected {EXPECTED}")
    notes: list[str] = []
    captions = read_token_file(file) if file.suffix == ".token" else read_captions(file, notes)
    if not lists:
        if scheme == "kiros":
            raise InputError(f"{root} has none of the lists flickr30k_train.txt, flickr30k_dev.txt, train.txt, ...")
        lists = {"train": list(captions)}
        notes.append("there are no split lists: all images count as train")
    splits = {split: [_with_suffix(name, captions) for name in names] for split, names in lists.items()}
    records, more = assemble(captions, splits, image_folder(root, _FOLDERS))
    return Dataset("flickr30k", root, records, (*notes, *more))


def _with_suffix(name: str, captions: dict[str, list[str]]) -> str:
    """Lists name images with or without .jpg; captions always with it."""
    return name if name in captions or f"{name}.jpg" not in captions else f"{name}.jpg"
