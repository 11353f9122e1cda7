"""The two tables of a library, as Lance datasets: files by path, photos by content.

    files      file (hash of the path), path, size, modified, content, reason: why it cannot be used, if so
    photos     content (hash of the bytes), embedding, regions, width, height, taken, checksum

A photo that was moved or copied is a new row of `files` only. There is one table of photos for each model, named
after it, since both encodings are the model's. Rows are only ever added and deleted, and no order of that can leave a
library wrong: a file without its photo is indexed again, a photo without a file is not found.

Lance and not LanceDB on top of it, whose import alone takes seconds; LanceDB opens the same folder.
"""

import hashlib
import os
import shutil
import zlib
from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa

from smlstm.errors import InputError
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
    digest = hashlib.blake2b(os.fsencode(path), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


def content_of(path: Path) -> int:
    """A number for a file's bytes: their hash."""
    return content_in(source_of(path))


def content_of_bytes(data: bytes) -> int:
    """The number that `content_of` has for a file with these bytes."""
    return content_in(f"-{content_hash(data)}")


def content_in(source: str) -> int:
    """The hash of a file's bytes out of `place-content`, as the extractor gives it."""
    return int.from_bytes(bytes.fromhex(source.partition("-")[2]), "big", signed=True)


class Table:
    """A Lance dataset that is made at its first row, and read as it is at the moment of reading."""

    def __init__(self, path: Path, schema: pa.Schema, rows_a_fragment: int) -> None:
        self.path, self.schema, self.rows_a_fragment = path, schema, rows_a_fragment
        self._dataset: Any = None

    @property
    def exists(self) -> bool:
        """Whether there is a row; a process killed at its first one leaves a folder without a version."""
        return any(self.path.glob("_versions/*.manifest"))

    @property
    def dataset(self) -> Any:
        """The latest version; None as long as there is no row."""
        try:
            if self._dataset is None:
                if not self.exists:
                    return None
                self._dataset = lance.dataset(str(self.path))
            else:
                self._dataset.checkout_latest()
        except (OSError, ValueError) as error:
            self._dataset = None
            if not self.exists:
                return None
            raise InputError(
                f"{self.path} cannot be read ({_first_line(error)}): `smlstm library repair` mends it"
            ) from None
        return self._dataset

    def pinned(self) -> Any:
        """The latest version in a hand of its own, which stays as it is whatever is written; None without rows."""
        dataset = self.dataset
        return None if dataset is None else lance.dataset(str(self.path), version=dataset.version)

    @property
    def version(self) -> int:
        """A number that changes with every change."""
        dataset = self.dataset
        return 0 if dataset is None else int(dataset.version)

    def __len__(self) -> int:
        dataset = self.dataset
        return 0 if dataset is None else int(dataset.count_rows())

    def read(self, columns: Sequence[str]) -> pa.Table:
        """Some columns of all rows, in the order of `take`."""
        dataset = self.dataset
        if dataset is None:
            return pa.schema([self.schema.field(name) for name in columns]).empty_table()
        return dataset.to_table(columns=list(columns))

    def batches(self, columns: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        """All rows, some at a time."""
        dataset = self.dataset
        if dataset is not None:
            yield from dataset.to_batches(columns=list(columns), batch_size=rows)

    def append(self, rows: pa.Table) -> None:
        """Add rows; they are there wholly or not at all."""
        if len(rows):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._dataset = lance.write_dataset(
                rows.cast(self.schema), str(self.path), mode="append" if self.exists else "create"
            )

    def delete(self, column: str, values: Iterable[int]) -> None:
        """Delete the rows with some values."""
        waiting = list(values)
        dataset = self.dataset
        for start in range(0, len(waiting) if dataset is not None else 0, _MANY_DELETED):
            chosen = ", ".join(str(int(value)) for value in waiting[start : start + _MANY_DELETED])
            dataset.delete(f"{column} IN ({chosen})")

    def replace(self, rows: Iterable[pa.RecordBatch]) -> None:
        """Put other rows in the place of all, wholly or not at all."""
        reader = pa.RecordBatchReader.from_batches(self.schema, rows)
        self._dataset = lance.write_dataset(reader, str(self.path), mode="overwrite")

    def drop(self) -> None:
        """Delete the table."""
        self._dataset = None
        shutil.rmtree(self.path, ignore_errors=True)

    def compact(self, force: bool = False) -> None:
        """Join the small pieces that many appends leave, and let go of what nobody can be reading any more.

        Only for who holds the library's lock: files that no version names are then left-overs of a killed process.
        """
        dataset = self.dataset
        if dataset is None:
            return
        small = sum(1 for each in dataset.get_fragments() if each.count_rows() < self.rows_a_fragment // 2)
        if small > _FEW_FRAGMENTS or force:
            dataset.optimize.compact_files(target_rows_per_fragment=self.rows_a_fragment, batch_size=256)
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


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0][:200] if str(error) else type(error).__name__
