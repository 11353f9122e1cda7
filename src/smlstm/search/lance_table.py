"""The two tables of a library, as Lance datasets: files by path, photos by content.

    files      file (hash of the path), path, size, modified, content, reason: why it cannot be used, if so
    photos     content (hash of the bytes), embedding, regions, width, height, taken, checksum

A photo that was moved or copied is a new row of `files` only. There is one table of photos for each model, named
after it, since both encodings are the model's. Rows are only ever added and deleted, and no order of that can leave a
library wrong: a file without its photo is indexed again, a photo without a file is not found.

Lance and not LanceDB on top of it, whose import alone takes seconds; LanceDB opens the same folder.
"""

import os
import shutil
import threading
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
from pyarrow import compute

from smlstm.files import fingerprint
from smlstm.search.damage import DamagedLibrary, first_line, told_as_damage
from smlstm.search.seals import COPY as SEALS_COPY
from smlstm.search.seals import NAME as SEALS
from smlstm.search.seals import Seals, is_as_sealed, read_seals, seal
from smlstm.vision.sources import content_hash, source_of

FILES = pa.schema(
    [
        pa.field("file", pa.int64(), nullable=False),
        pa.field("path", pa.binary(), nullable=False),  # names of files need not be valid Unicode
        pa.field("size", pa.int64(), nullable=False),
        pa.field("modified", pa.int64(), nullable=False),  # nanoseconds
        pa.field("content", pa.int64(), nullable=False),
        pa.field("reason", pa.string()),
    ]
)
_MANY_DELETED = 1000
_FEW_FRAGMENTS = 16
_READ_AT_ONCE = 1 << 22
"""Files up to this size are compared with their checksums wholly before a search, larger ones by their layout."""
_FIRST_SECOND, _LAST_SECOND = -62135596800, 253402300799
"""Of the years 1 to 9999, which Python's dates can be of."""


def photo_schema(embedding: int, regions: int) -> pa.Schema:
    """The columns of photos with an embedding of some numbers and regions of some bytes."""
    return pa.schema(
        [
            pa.field("content", pa.int64(), nullable=False),
            pa.field("embedding", pa.list_(pa.float16(), embedding), nullable=False),
            pa.field("regions", pa.list_(pa.uint8(), regions), nullable=False),
            pa.field("width", pa.int32()),
            pa.field("height", pa.int32()),
            pa.field("taken", pa.timestamp("s")),
            pa.field("checksum", pa.int64(), nullable=False),
        ]
    )


def file_id(path: str) -> int:
    """A number for a path: its hash."""
    return int.from_bytes(bytes.fromhex(fingerprint([os.fsencode(path)], 8)), "big", signed=True)


def content_of(path: Path) -> int:
    """A number for a file's bytes: their hash."""
    return content_in(source_of(path))


def content_of_bytes(data: bytes) -> int:
    """The number that `content_of` has for a file with these bytes."""
    return content_in(f"-{content_hash(data)}")


def content_in(source: str) -> int:
    """The hash of a file's bytes out of `place-content`, as the extractor gives it."""
    return int.from_bytes(bytes.fromhex(source.partition("-")[2]), "big", signed=True)


@dataclass(frozen=True)
class _State:
    """A table as it was found; what is written makes another one, and who reads this one goes on."""

    seals: Seals = field(default_factory=Seals)
    seen: tuple[Any, ...] = ()
    """What the files with seals looked like, and which versions there were."""
    dataset: Any = None
    """Only ever read: Lance refuses to read what is being changed."""


class Table:
    """A Lance dataset that is made at its first row, and read as it is at the moment of reading.

    All that Lance is asked is asked here, where damage becomes `DamagedLibrary`. Several threads may read.
    """

    def __init__(self, path: Path, schema: pa.Schema, rows_per_fragment: int) -> None:
        self.path, self.schema, self.rows_per_fragment = path, schema, rows_per_fragment
        self._guard = threading.Lock()
        self._state = _State()

    @property
    def exists(self) -> bool:
        """Whether there is a row; a process killed at its first one leaves a folder without a version."""
        return any(self.path.glob("_versions/*.manifest"))

    @property
    def dataset(self) -> Any:
        """The latest version, to read; None as long as there is no row."""
        return self._latest().dataset

    def _latest(self) -> _State:
        with self._guard:
            seen = (_identity(self.path / SEALS), _identity(self.path / SEALS_COPY), _names(self.path / "_versions"))
            if seen != self._state.seen or self._state.dataset is None:
                before, self._state = self._state, _State()
                self._state = self._opened(before, seen)
            return self._state

    def _opened(self, before: _State, seen: tuple[Any, ...]) -> _State:
        seals = before.seals if seen[:2] == before.seen[:2] else self._verified(before.seals)
        with told_as_damage(self.path):
            dataset = self._open()
            if dataset is None and (seals.version or (self.path.exists() and not self.path.is_dir())):
                raise ValueError("its versions are missing")
            if dataset is not None and dataset.version < seals.version:
                raise ValueError("its newest version is missing")
        return _State(seals, seen, dataset)

    def _open(self) -> Any:
        """The latest version in a hand of its own; None without rows."""
        return lance.dataset(str(self.path)) if self.exists else None

    def _verified(self, before: Seals) -> Seals:
        """Compare the files with their seals, each once, before Lance trusts them."""
        try:
            seals = read_seals(self.path)
        except ValueError as error:
            raise DamagedLibrary(self.path / SEALS, first_line(error)) from None
        known = before.files if seals.made == before.made else {}
        for name, each in seals.files.items():
            wholly = each.size <= _READ_AT_ONCE
            if known.get(name) != each and not is_as_sealed(self.path / name, each, wholly):
                raise DamagedLibrary(self.path / name, "it is not what was written")
        return seals

    def pinned(self) -> "Version | None":
        """The latest version, which stays as it is whatever is written; None without rows."""
        dataset = self.dataset
        return None if dataset is None else Version(dataset, self)

    @property
    def version(self) -> tuple[str, int]:
        """What changes with every change: the table's name for itself, and a number."""
        state = self._latest()
        return state.seals.made, 0 if state.dataset is None else int(state.dataset.version)

    def __len__(self) -> int:
        dataset = self.dataset
        with told_as_damage(self.path):
            return 0 if dataset is None else int(dataset.count_rows())

    def read(self, columns: Sequence[str]) -> pa.Table:
        """Some columns of all rows, in the order of `take`."""
        dataset = self.dataset
        if dataset is None:
            return pa.schema([self.schema.field(name) for name in columns]).empty_table()
        with told_as_damage(self.path):
            return self.valid(dataset.to_table(columns=list(columns)))

    def batches(self, columns: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        """All rows, some at a time."""
        dataset = self.dataset
        if dataset is not None:
            with told_as_damage(self.path):
                for batch in dataset.to_batches(columns=list(columns), batch_size=rows):
                    yield self.valid(batch)

    def valid(self, rows: Any) -> Any:
        """Rows as they came from the disk, if they can be rows of this table; else a ValueError."""
        rows.validate(full=True)
        for name, column in zip(rows.schema.names, rows.columns, strict=True):
            expected = self.schema.field(name)
            if column.type != expected.type or (column.null_count and not expected.nullable):
                raise ValueError(f"{name} is not what it should be")
            if pa.types.is_timestamp(column.type) and len(column):
                ends = compute.min_max(column.cast(pa.int64())).as_py()
                if ends["min"] is not None and not _FIRST_SECOND <= ends["min"] <= ends["max"] <= _LAST_SECOND:
                    raise ValueError(f"{name} has a date that cannot be")
        return rows

    def append(self, rows: pa.Table) -> None:
        """Add rows; they are there wholly or not at all."""
        if len(rows):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self._changing() as dataset:
                mode = "create" if dataset is None else "append"
                lance.write_dataset(rows.cast(self.schema), str(self.path), mode=mode)

    def delete(self, column: str, values: Iterable[int]) -> None:
        """Delete the rows with some values."""
        waiting = list(values)
        if not waiting or self.dataset is None:
            return
        with self._changing() as dataset:
            for start in range(0, len(waiting), _MANY_DELETED):
                chosen = ", ".join(str(int(value)) for value in waiting[start : start + _MANY_DELETED])
                dataset.delete(f"{column} IN ({chosen})")

    def replace(self, rows: Iterable[pa.RecordBatch]) -> None:
        """Put other rows in the place of all, wholly or not at all."""
        reader = pa.RecordBatchReader.from_batches(self.schema, rows)
        with self._changing() as dataset:
            mode = "create" if dataset is None else "overwrite"
            lance.write_dataset(reader, str(self.path), mode=mode, max_rows_per_file=self.rows_per_fragment)

    def build_index(self, column: str, name: str, partitions: int) -> None:
        """Build the index by which the nearest vectors are found, in the place of the one before."""
        with self._changing() as dataset:
            dataset.create_index(
                column, "IVF_FLAT", name=name, metric="cosine", num_partitions=partitions, replace=True
            )

    def drop_index(self, name: str) -> None:
        """Let an index go."""
        with self._changing() as dataset:
            dataset.drop_index(name)

    @contextmanager
    def _changing(self) -> Iterator[Any]:
        """Change a table that is whole, in a hand of its own, and seal what was written."""
        seals = self._latest().seals
        with told_as_damage(self.path):
            yield self._open()
            seal(self.path, int(self._open().version), seals)

    def seal(self) -> None:
        """Seal what a killed process, or an older smlstm, left without."""
        state = self._latest()
        if state.dataset is not None and int(state.dataset.version) != state.seals.version:
            with told_as_damage(self.path):
                seal(self.path, int(state.dataset.version), state.seals)

    def drop(self) -> None:
        """Delete the table."""
        shutil.rmtree(self.path, ignore_errors=True)
        if not self.path.is_dir():
            self.path.unlink(missing_ok=True)

    def compact(self, force: bool = False) -> None:
        """Join the small pieces that many appends leave, and let go of what nobody can be reading any more.

        Only for who holds the library's lock: files that no version names are then left-overs of a killed process.
        """
        if self.dataset is None:
            return
        with self._changing() as dataset:
            small = sum(1 for each in dataset.get_fragments() if each.count_rows() < self.rows_per_fragment // 2)
            if small > _FEW_FRAGMENTS or force:
                dataset.optimize.compact_files(target_rows_per_fragment=self.rows_per_fragment, batch_size=256)
            elif len(dataset.versions()) <= _FEW_FRAGMENTS:
                return
            dataset.cleanup_old_versions(
                older_than=timedelta(0) if force else timedelta(minutes=10), delete_unverified=True
            )

    @property
    def bytes(self) -> int:
        """What it takes on the disk."""
        files = (path for path in self.path.rglob("*") if path.is_file()) if self.path.exists() else ()
        return sum(path.stat().st_size for path in files)


class Version:
    """One version of a table, read when it is needed."""

    def __init__(self, dataset: Any, table: Table) -> None:
        self._dataset, self._table = dataset, table

    def read(self, columns: Sequence[str], rows: Sequence[int] | None = None) -> pa.Table:
        """Some columns of all rows, or of some in their order."""
        with told_as_damage(self._table.path):
            if rows is None:
                return self._table.valid(self._dataset.to_table(columns=list(columns)))
            found = self._table.valid(self._dataset.take(list(rows), columns=list(columns)))
            if len(found) != len(rows):
                raise ValueError(f"{len(rows) - len(found)} rows are missing")
            return found

    def nearest(self, columns: Sequence[str], **query: Any) -> pa.Table:
        """Some columns of the rows that Lance finds nearest to a vector, and their `_distance`."""
        with told_as_damage(self._table.path):
            return self._dataset.to_table(columns=[*columns, "_distance"], nearest=query)

    def indexed(self, name: str) -> int:
        """How many rows an index holds; 0 where there is none."""
        with told_as_damage(self._table.path):
            return next(
                (int(each.num_rows_indexed) for each in self._dataset.describe_indices() if each.name == name), 0
            )


def _identity(path: Path) -> tuple[int, int] | None:
    """What changes when a file is replaced; None where there is none."""
    try:
        status = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return status.st_ino, status.st_mtime_ns


def _names(folder: Path) -> tuple[str, ...]:
    """What lies in a folder: its time of change is too coarse to tell two commits apart."""
    try:
        return tuple(sorted(each.name for each in folder.iterdir()))
    except (FileNotFoundError, NotADirectoryError):
        return ()


def matrix(column: pa.ChunkedArray) -> Any:
    """A column of lists of one length as a matrix."""
    chunk = column.combine_chunks()
    return chunk.flatten().to_numpy().reshape(len(chunk), chunk.type.list_size)


def rows_of_lists(values: Any) -> pa.Array:
    """A matrix as a column of lists of one length."""
    return pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), values.shape[1])


def checksum(vector: Any, regions: Any) -> int:
    """By which damage to a stored photo is noticed."""
    return zlib.crc32(regions.tobytes(), zlib.crc32(vector.tobytes()))
