"""Features that others computed, in the layout of SCAN and VSE++.

For each split `train_ims.npy` (images x regions x width, or images x width), `train_caps.txt` (one caption a line)
and, if there is one, `train_ids.txt`. The captions of an image follow each other, equally many for each image
(five in the published files), unless `_ids` names the image of each caption. Kiros' files repeat each image for
each of its captions; repeated rows count once. Regions come without a global context: it is their mean.
Where both `test` and `testall` are there, `test` is the test split unless the scheme `testall` is asked for.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from smlstm.data.features import FeatureSpec, Half, KeyedFeatures, Rows, check_rows
from smlstm.data.files import read_lines
from smlstm.data.records import Dataset, Record
from smlstm.errors import InputError

EXPECTED = "precomputed (SCAN, VSE++): train_ims.npy with train_caps.txt, and dev and test likewise"
# COCO's files have two test sets, 1000 images and all 5000.
SCHEMES = ("test", "testall")
_FILES = {"train": "train", "dev": "dev", "val": "dev", "test": "test", "testall": "test"}


@dataclass(frozen=True)
class _Part:
    """One array: its split, the row of each image, and the images' keys and captions."""

    name: str
    split: str
    array: npt.NDArray[Any]
    rows: list[int]
    keys: list[str]
    captions: list[list[str]]
    file: Path


def recognise(path: Path) -> bool:
    """Whether a folder has arrays of features with captions beside them."""
    return path.is_dir() and bool(_found(path))


def read(path: Path, scheme: str | None = None) -> Dataset:
    """Read the captions; an image's path is its array."""
    parts = _parts(path)
    names = {part.name for part in parts}
    if scheme is not None and scheme not in names:
        raise InputError(f"{path} has no {scheme}_ims.npy with {scheme}_caps.txt")
    other = {"testall"} if scheme != "testall" else {"test"}
    left_out = other if {"test", "testall"} <= names else set()
    records = [
        Record(key, part.file, tuple(captions), part.split)
        for part in parts
        if part.name not in left_out
        for key, captions in zip(part.keys, part.captions, strict=True)
    ]
    notes = [f"{name}_ims.npy was left out: --split-scheme {name} takes it for the test split" for name in left_out]
    return Dataset("precomputed", path, tuple(records), tuple(notes))


class PrecomputedFeatures(KeyedFeatures):
    """The arrays as features by key: memory-mapped, turned into float16 as they are read."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._parts = _parts(self.path)
        shapes = {part.array.shape[1:] for part in self._parts}
        if len(shapes) > 1:
            raise InputError(f"{self.path}: the splits have features of different shapes: {sorted(shapes)}")
        shape = shapes.pop()
        regions, width = shape if len(shape) == 2 else (1, shape[0])
        self._spec = FeatureSpec("precomputed", "unknown", "unknown", regions, width, width)
        keys = itertools.chain.from_iterable(part.keys for part in self._parts)
        self._index = {key: row for row, key in enumerate(keys)}
        self._ends = np.cumsum([len(part.keys) for part in self._parts])

    def read_at(self, rows: Sequence[int] | Rows) -> tuple[Half, Half]:
        """Regions (B x I x F) and their means (B x F) of some rows, in their order."""
        wanted = check_rows(rows, len(self), self.path)
        regions = np.empty((len(wanted), self._spec.regions, self._spec.region_width), np.float16)
        context = np.empty((len(wanted), self._spec.context_width), np.float16)
        part_of = np.searchsorted(self._ends, wanted, side="right")
        with np.errstate(over="ignore"):
            for place, (row, number) in enumerate(zip(wanted.tolist(), part_of.tolist(), strict=True)):
                part = self._parts[number]
                start = int(self._ends[number]) - len(part.keys)
                source = part.array[part.rows[row - start]].reshape(regions.shape[1:])
                regions[place] = source
                context[place] = source.mean(axis=0, dtype=np.float32)
        if not np.isfinite(regions).all():
            wrong = int(wanted[~np.isfinite(regions).all(axis=(1, 2))][0])
            raise InputError(f"{self.path}: the features of row {wrong} are not all finite float16 numbers")
        return regions, context

    def __reduce__(self) -> tuple[Any, ...]:
        return PrecomputedFeatures, (self.path,)


def _found(path: Path) -> list[str]:
    """Find the name in the files of every part that has an array and captions."""
    return [name for name in _FILES if (path / f"{name}_ims.npy").exists() and (path / f"{name}_caps.txt").exists()]


def _parts(path: Path) -> list[_Part]:
    found = _found(path) if path.is_dir() else []
    if not found:
        raise InputError(f"{path} has no train_ims.npy with train_caps.txt; expected {EXPECTED}")
    return [_read_part(path, name) for name in found]


def _read_part(path: Path, name: str) -> _Part:
    file = path / f"{name}_ims.npy"
    try:
        array = np.lib.format.open_memmap(file, mode="r")
    except OSError as error:
        raise InputError(f"{file} cannot be read: {error.strerror or error}") from None
    except Exception:  # a damaged header can provoke anything, and what NumPy says of it advises to run its code
        raise InputError(
            f"{file} is not a whole .npy array of numbers: it is damaged, cut short or something else; copy it again"
        ) from None
    if array.ndim not in (2, 3) or not np.issubdtype(array.dtype, np.floating) or 0 in array.shape:
        raise InputError(
            f"{file} has shape {array.shape} of {array.dtype}: expected images x regions x width or images x width"
        )
    captions = _lines(path / f"{name}_caps.txt")
    ids_file = path / f"{name}_ids.txt"
    ids = _lines(ids_file) if ids_file.exists() else None
    if ids is not None and len(ids) == len(captions) != len(set(ids)):
        rows, groups = _group_by_ids(array, captions, ids, file)
    else:
        rows, groups = _group_by_count(array, captions, file)
    names = [str(row) for row in rows]
    if ids is not None and len(set(ids)) == len(rows):
        names = list(dict.fromkeys(ids))
    return _Part(name, _FILES[name], array, rows, [f"{name}/{each}" for each in names], groups, file)


def _group_by_ids(
    array: npt.NDArray[Any], captions: list[str], ids: list[str], file: Path
) -> tuple[list[int], list[list[str]]]:
    groups: dict[str, list[str]] = {}
    first: dict[str, int] = {}
    for row, (image, caption) in enumerate(zip(ids, captions, strict=True)):
        groups.setdefault(image, []).append(caption)
        first.setdefault(image, row)
    if len(array) == len(captions):
        return list(first.values()), list(groups.values())
    if len(array) == len(groups):
        return list(range(len(groups))), list(groups.values())
    raise InputError(
        f"{file} has {len(array)} images, but its _ids name {len(groups)} images for {len(captions)} captions"
    )


def _group_by_count(array: npt.NDArray[Any], captions: list[str], file: Path) -> tuple[list[int], list[list[str]]]:
    images = len(array)
    if not captions or len(captions) % images:
        raise InputError(
            f"{file} has {images} images and {len(captions)} captions, which is no whole number of captions an image: "
            "add an _ids.txt with the image of each caption"
        )
    step = _repetition(array) if len(captions) == images else 1
    each = len(captions) * step // images
    rows = list(range(0, images, step))
    return rows, [captions[place * each : (place + 1) * each] for place in range(len(rows))]


def _repetition(array: npt.NDArray[Any]) -> int:
    """Tell how often each image is repeated, from the first ones and a few others: reading all would take long."""
    times = 1
    while times < len(array) and np.array_equal(array[times], array[0]):
        times += 1
    if len(array) % times:
        return 1
    starts = np.linspace(0, len(array) // times - 1, num=8).astype(int) * times
    same = all(np.array_equal(array[start], array[start + times - 1]) for start in starts)
    return times if same else 1


def _lines(file: Path) -> list[str]:
    lines = [line.strip() for line in read_lines(file)]
    while lines and not lines[-1]:
        lines.pop()
    return lines
