"""The photos that are served: all of the library, or those below some folders, and nothing else by any way."""

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from smlstm.errors import InputError
from smlstm.files import printable
from smlstm.search import Filter
from smlstm.search.browsing import photos_in
from smlstm.search.dates import first_moment, moment_after
from smlstm.search.lance_table import file_id
from smlstm.search.manifest import Folder
from smlstm.search.searching import Searcher
from smlstm.search.snapshot import Mask, Snapshot
from smlstm.web import answers
from smlstm.web.answers import content_of_id, photo_id
from smlstm.web.problems import NotFound
from smlstm.web.questions import Where

if TYPE_CHECKING:
    from torch import Tensor

    from smlstm.matching.batch import Batch
    from smlstm.search import Library
    from smlstm.search.matches import Match


_MOST_FOLDERS = 500


class Served:
    """What of a library may be seen: by id, never by path."""

    def __init__(self, library: "Library", folders: tuple[str, ...]) -> None:
        self.library = library
        self.everything = Filter(folders=folders)
        self._folders: tuple[object, tuple[str, ...], list[tuple[answers.Folder, str]]] = (None, (), [])
        self._counted: tuple[object, int] = (None, 0)
        self._skipped: tuple[object, list[answers.SkippedFile]] = (None, [])

    def filter(self, where: Where) -> Filter:
        """Which photos may be found: never more than what is served."""
        folders = self.everything.folders
        if where.folders:
            known = {folder.id: path for folder, path in self.folders()}
            missing = [name for name in where.folders if name not in known]
            if missing:
                raise InputError(f"{missing[0]} is no folder of the library")
            folders = tuple(known[name] for name in where.folders)
        since = None if where.since is None else first_moment(where.since)
        until = None if where.until is None else moment_after(where.until)
        return Filter(folders, where.paths, since, until)

    def folders(self) -> list[tuple[answers.Folder, str]]:
        """The folders that are served and those within them, with the files below each; the outer ones first."""
        snapshot = self.library.snapshot()
        outer = self.everything.folders or tuple(self.library.manifest.outermost)
        if self._folders[0] is not snapshot or self._folders[1] != outer:
            self._folders = (snapshot, outer, self._count_folders(snapshot, outer))
        return self._folders[2]

    def _count_folders(self, snapshot: Snapshot, outer: tuple[str, ...]) -> list[tuple[answers.Folder, str]]:
        places = np.flatnonzero(snapshot.files(self.everything)).tolist()
        direct = Counter(_parent(snapshot.paths[place]) for place in places)
        counts = Counter(dict.fromkeys(outer, 0))
        for folder, files in direct.items():
            counts[folder] += files
            while folder not in outer and (above := _parent(folder)) != folder:
                folder = above  # noqa: PLW2901 - upwards
                counts[folder] += files
        chosen = sorted(counts, key=lambda path: (path not in outer, path.count(os.sep), path))[:_MOST_FOLDERS]
        return [
            (answers.Folder(id=photo_id(file_id(path)), path=printable(path), files=counts[path]), path)
            for path in chosen
        ]

    def photo_count(self) -> int:
        """How many photos can be found."""
        snapshot = self.library.snapshot()
        if self._counted[0] is not snapshot:
            count = int(snapshot.photos(snapshot.files(self.everything)).sum())
            self._counted = (snapshot, count)
        return self._counted[1]

    def file_count(self) -> int:
        """How many files can be found."""
        return int(self.library.snapshot().files(self.everything).sum())

    def skipped(self, offset: int, limit: int) -> answers.SkippedFiles:
        """Files that cannot be used, and why."""
        found = self._skipped_files()
        return answers.SkippedFiles(files=found[offset : offset + limit], total=len(found))

    def _skipped_files(self) -> list[answers.SkippedFile]:
        version = self.library.snapshot().versions
        if self._skipped[0] != version:
            holders = self.everything.folders
            found = [
                answers.SkippedFile(path=printable(entry.path), reason=printable(entry.reason))
                for entry in self.library.entries()
                if entry.reason is not None
                and (not holders or any(Folder(each).holds(str(entry.path)) for each in holders))
            ]
            self._skipped = (version, found)
        return self._skipped[1]

    def match(self, content: int) -> "Match":
        """A photo that is served."""
        return self._matches([content])[0][0]

    def paths(self, content: int) -> list[Path]:
        """The files of a photo that is served."""
        snapshot = self.library.snapshot()
        files = snapshot.files(self.everything)
        (row,) = self._rows(snapshot, files, [content])
        return [Path(snapshot.path(file)) for file in snapshot.files_of([row], files)[row]]

    def _matches(self, contents: Sequence[int]) -> tuple[list["Match"], Searcher, list[int]]:
        searcher = self.library.searcher()
        snapshot = searcher.snapshot
        files = snapshot.files(self.everything)
        rows = self._rows(snapshot, files, contents)
        return photos_in(snapshot, rows, files), searcher, rows

    def _rows(self, snapshot: Snapshot, files: Mask, contents: Sequence[int]) -> list[int]:
        served = snapshot.photos(files)
        rows = [int(row) for row in snapshot.rows_of(np.array(contents, np.int64))]
        for row, content in zip(rows, contents, strict=True):
            if row < 0 or not served[row]:
                raise NotFound(f"there is no photo {photo_id(content)} in the library")
        return rows

    def encoded(self, names: Sequence[str]) -> tuple[list["Match"], "Tensor", "Batch"]:
        """Photos as both matchers encode them."""
        matches, searcher, rows = self._matches([content_of_id(name) for name in names])
        vectors, images = searcher.encoded(rows)
        return matches, vectors, images


def _parent(path: str) -> str:
    return path.rpartition(os.sep)[0] or os.sep
