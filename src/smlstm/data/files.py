"""Reading the small files of datasets, so that what is wrong with one is a sentence that names it."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from smlstm.errors import InputError


def read_lines(path: Path) -> Iterator[str]:
    """Give the lines of a UTF-8 text file without their ends; a byte order mark is skipped."""
    try:
        with path.open(encoding="utf-8-sig", newline=None) as file:
            for line in file:
                yield line.rstrip("\n")
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 text: {error.reason} at byte {error.start}") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None


def read_names(path: Path) -> list[str]:
    """Read a list of image names, one a line; empty lines do not count."""
    return [line.strip() for line in read_lines(path) if line.strip()]


def read_json(path: Path) -> Any:
    """Read a JSON file."""
    try:
        return json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not JSON: {error}") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None


def first_existing(folder: Path, names: Iterable[str]) -> Path | None:
    """Find the first of some names that a folder has."""
    return next((folder / name for name in names if (folder / name).exists()), None)


def image_folder(root: Path, names: Iterable[str]) -> Path:
    """Find the folder of images by its usual names; the root itself if there is none of them."""
    return next((root / name for name in names if (root / name).is_dir()), root)


def read_split_lists(folder: Path, starts: Iterable[str]) -> dict[str, list[str]]:
    """Read lists of image names by split, such as train.txt or flickr30k_devImages.txt, that a folder has."""
    lists: dict[str, list[str]] = {}
    for split, words in (("train", ("train",)), ("dev", ("dev", "val")), ("test", ("test",))):
        names = [f"{start}{word}{end}" for start in starts for word in words for end in (".txt", "Images.txt")]
        file = first_existing(folder, names)
        if file is not None:
            lists[split] = read_names(file)
    return lists
