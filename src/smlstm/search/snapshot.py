"""A library as a search sees it: both tables at one moment, joined, in memory."""

import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from fnmatch import translate
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import compute

from smlstm.search.dates import local_times
from smlstm.search.lance_table import Table, matrix
from smlstm.search.manifest import Folder

Mask = NDArray[np.bool_]
Rows = NDArray[np.int64]
_MASKS = 32


@dataclass(frozen=True)
class Filter:
    """Which files may be found; what is not given lets all through."""

    folders: tuple[str, ...] = ()
    """Only below one of these."""
    paths: tuple[str, ...] = ()
    """Only paths that fit one of these: as a pattern if it has *, ? or [, else as a part; in any case of letters."""
    since: datetime | None = None
    until: datetime | None = None
    """Taken from `since` on and before `until`."""

    def __bool__(self) -> bool:
        return bool(self.folders or self.paths or self.since or self.until)


class Snapshot:
    """Photos by row, files that can be used, and which photo each file has."""

    def __init__(self, files: Table, photos: Table) -> None:
        # Files first: their photos were stored before them.
        self.versions = (files.version, photos.version)
        table = files.read(["path", "modified", "content", "reason"])
        table = table.filter(compute.is_null(table["reason"]))
        self._paths = table["path"].combine_chunks()
        self._modified = table["modified"].to_numpy()
        self.version = photos.pinned()
        self._schema = photos.schema
        self._masks: dict[tuple[str, ...], Mask] = {}
        rows = self.read(["content", "width", "height", "taken"])
        self.contents: Rows = rows["content"].to_numpy()
        self._facts = rows.select(["width", "height", "taken"]).combine_chunks()
        self._taken = rows["taken"].to_numpy().astype("datetime64[s]")
        self._order = np.argsort(self.contents, kind="stable")
        self.photo_of = self.rows_of(table["content"].to_numpy())
        """The photo's row for each file; -1 where it is not stored (yet)."""

    def read(self, columns: list[str], rows: list[int] | None = None) -> Any:
        """Some columns of all photos, or of some rows in their order."""
        if self.version is None:
            return pa.schema([self._schema.field(name) for name in columns]).empty_table()
        return self.version.read(columns, rows)

    def facts(self, rows: Sequence[int]) -> list[dict[str, Any]]:
        """What the headers of photos told: width, height, taken."""
        found: list[dict[str, Any]] = self._facts.take(pa.array(rows, pa.int64())).to_pylist()
        return found

    def rows_of(self, contents: Rows) -> Rows:
        """The rows of photos with some contents; -1 where there is none."""
        if not len(self.contents):
            return np.full(len(contents), -1)
        place = np.searchsorted(self.contents, contents, sorter=self._order)
        found = self._order[np.minimum(place, len(self._order) - 1)]
        return np.where(self.contents[found] == contents, found, -1)

    @cached_property
    def vectors(self) -> NDArray[np.float32]:
        """The embeddings of all photos; P, E."""
        vectors: NDArray[np.float32] = matrix(self.read(["embedding"])["embedding"]).astype(np.float32)
        return vectors

    def files(self, chosen: Filter) -> Mask:
        """Which files a filter lets through."""
        mask = self.photo_of >= 0
        if chosen.folders or chosen.paths:
            mask &= self._by_path(chosen)
        if chosen.since or chosen.until:
            dates = self.dates
            mask &= True if chosen.since is None else dates >= np.datetime64(chosen.since, "s")
            mask &= True if chosen.until is None else dates < np.datetime64(chosen.until, "s")
        return mask

    def photos(self, files: Mask) -> Mask:
        """The photos of some files."""
        mask = np.zeros(len(self.contents), bool)
        mask[self.photo_of[files]] = True
        return mask

    @cached_property
    def dates(self) -> Any:
        """When each file's photo was taken; where it does not say, when the file was last changed."""
        changed = local_times(self._modified)
        taken = np.full(len(self.photo_of), np.datetime64("NaT", "s"))
        there = self.photo_of >= 0
        taken[there] = self._taken[self.photo_of[there]]
        return np.where(np.isnat(taken), changed, taken)

    @cached_property
    def paths(self) -> list[str]:
        """The path of each file."""
        return [os.fsdecode(path) for path in self._paths.to_pylist()]

    def _by_path(self, chosen: Filter) -> Mask:
        mask: Mask = self._below(chosen.folders).copy()
        if chosen.paths:
            patterns = [_pattern(path) for path in chosen.paths]
            mask &= self._where(lambda path: any(pattern.search(path) for pattern in patterns))
        return mask

    def _below(self, folders: tuple[str, ...]) -> Mask:
        """Which files lie in folders; kept, since a server asks for the same ones with every question."""
        mask = self._masks.get(folders)
        if mask is None:
            holders = [Folder(path) for path in folders]
            mask = self._where(lambda path: not holders or any(folder.holds(path) for folder in holders))
            if len(self._masks) >= _MASKS:
                self._masks.clear()
            self._masks[folders] = mask
        return mask

    def _where(self, fits: Callable[[str], bool]) -> Mask:
        mask: Mask = np.fromiter(map(fits, self.paths), bool, len(self.paths))
        return mask

    def files_of(self, rows: Iterable[int], files: Mask) -> dict[int, list[int]]:
        """For some photos, the files among those chosen, in the order of their paths."""
        wanted = np.fromiter(rows, np.int64)
        places = np.flatnonzero(files & np.isin(self.photo_of, wanted))
        found: dict[int, list[int]] = {int(row): [] for row in wanted}
        for place in sorted(places.tolist(), key=lambda place: os.fsdecode(self._paths[place].as_py())):
            found[int(self.photo_of[place])].append(place)
        return found

    def path(self, file: int) -> str:
        """The path of one file."""
        return os.fsdecode(self._paths[file].as_py())


def _pattern(text: str) -> re.Pattern[str]:
    if not any(sign in text for sign in "*?["):
        return re.compile(re.escape(text), re.IGNORECASE)
    # A pattern fits a whole path, or the end of one: what was typed need not begin at the root.
    return re.compile(r"(?:\A|[/\\])" + translate(text), re.IGNORECASE)
