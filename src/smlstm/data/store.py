"""The feature store: features are extracted once, read many times, in any order.

A folder of three files: `store.json` says which backbone, weights and preprocessing made the features;
`records.f16` holds one record of fixed size for each image (its regions, then its context, float16, little
endian); `journal.log` lists the keys and checksums of the records that count and, where the writer says it, what
each was made from. An append writes the records, forces them to the disk, and only then writes the journal's line:
what the journal does not name never happened, so a writer killed at any moment loses at most the batch in flight.

Why not Lance: a random batch of 100 photos of 100 x 1280 regions took it 55 to 115 ms; this store takes 4 ms, a raw
memory-mapped array 3 (all in the page cache). From the disk it is 16 ms here, 110 in Lance, 350 in the raw map. See
`docs/data.md` and `benchmarks/store.py`.
"""

import os
import threading
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from smlstm.data.features import FeatureSpec, Half, KeyedFeatures, Rows, check_rows
from smlstm.data.header import (
    HEADER,
    JOURNAL,
    LOCK,
    RECORDS,
    make_folder,
    read_header,
    write_header,
)
from smlstm.data.journal import Journal, write_all
from smlstm.data.lock import WriterLock
from smlstm.errors import InputError, SmlstmError
from smlstm.files import sync_folder

_EXPONENT = np.uint16(0x7C00)  # all exponent bits set: infinite or not a number


class FeatureStore(KeyedFeatures):
    """Float16 regions and contexts of many images by key. Open it with `FeatureStore.open`.

    A store opened for reading shows what was complete when it was opened. Reading is safe from several
    threads, in forked workers, and after pickling (the copy opens the same folder for reading).
    """

    def __init__(self, path: Path, spec: FeatureSpec, seed: int, lock: WriterLock | None) -> None:
        self.path = path
        self._spec = spec
        self._lock = lock
        self._cells = spec.regions * spec.region_width
        self._record = 2 * (self._cells + spec.context_width)
        self._journal = Journal(path / JOURNAL, seed)
        self._index: dict[str, int] = {}
        self._checksums: list[int] = []
        self._sources: dict[str, str] = {}
        for entry in self._journal.replay():
            self._count(entry["keys"], entry["crc32"], entry.get("sources"))
        self._file = self._open_records()
        self._seeking = threading.Lock()
        # Set while an append runs: if it is interrupted, only a fresh start knows what reached the disk.
        self._interrupted = False

    @classmethod
    def open(cls, path: str | os.PathLike[str], spec: FeatureSpec | None = None) -> "FeatureStore":
        """Open a store for reading, or, with a spec, create it or continue writing it.

        A store that other features made is refused: the message names the field and both values.
        """
        path = Path(path)
        if spec is None:
            with _as_sentence(path, "read", InputError):
                return cls(path, *read_header(path), None)
        with _as_sentence(path, "written"):
            return cls._open_to_write(path, spec)

    @classmethod
    def _open_to_write(cls, path: Path, spec: FeatureSpec) -> "FeatureStore":
        make_folder(path)
        lock = WriterLock(path / LOCK)
        try:
            if not (path / HEADER).exists():
                write_header(path, spec)
            stored, seed = read_header(path)
            different = stored.difference(spec)
            if different:
                field, theirs, ours = different
                raise InputError(
                    f'{path} holds features whose "{field}" is {theirs!r}, not {ours!r}: '
                    "give another folder, or extract with the same backbone and settings"
                )
            return cls(path, stored, seed, lock)
        except BaseException:
            lock.release()
            raise

    @property
    def writable(self) -> bool:
        """Whether this is the one writer of the store."""
        return self._lock is not None

    @property
    def record_bytes(self) -> int:
        """Bytes of one image's features."""
        return self._record

    def append(
        self,
        keys: Sequence[str],
        regions: npt.NDArray[np.floating[Any]],
        context: npt.NDArray[np.floating[Any]],
        sources: Sequence[str] | None = None,
    ) -> None:
        """Add a batch (B x I x F regions, B x D contexts), durably: all of it is stored, or none.

        `sources` may say what each was made from, in words of the caller's; see `source`.
        """
        if self._lock is None or not self._lock.held:
            raise SmlstmError(f"{self.path} is open for reading here: open it with its spec to write")
        if self._interrupted:
            raise SmlstmError(f"{self.path}: an append was interrupted; open the store again to continue")
        self._check_keys(keys)
        if sources is not None and len(sources) != len(keys):
            raise InputError(f"{self.path}: {len(sources)} sources for {len(keys)} keys")
        if not keys:
            return
        records = self._pack(keys, regions, context)
        checksums = [zlib.crc32(record) for record in records.view(np.uint8)]
        self._interrupted = True
        entry = {"keys": list(keys), "crc32": checksums}
        if sources is not None:
            entry["sources"] = list(sources)
        with _as_sentence(self.path, "written", then="; nothing of this batch was stored"):
            self._file.seek(len(self) * self._record)
            write_all(self._file, records.reshape(-1).view(np.uint8))
            os.fsync(self._file.fileno())
            self._journal.append(entry)
        self._count(keys, checksums, sources)
        self._interrupted = False

    def source(self, key: str) -> str | None:
        """What a writer said that an image's features were made from, if it did; only a writer may ask."""
        return self._sources.get(key)

    def read_at(self, rows: Sequence[int] | Rows) -> tuple[Half, Half]:
        """Regions (B x I x F) and contexts (B x D) of some rows, in their order; a row may come twice."""
        wanted = check_rows(rows, len(self), self.path).tolist()
        regions = np.empty((len(wanted), self._cells), np.float16)
        context = np.empty((len(wanted), self._spec.context_width), np.float16)
        self._announce(wanted)
        for place, row in enumerate(wanted):
            self._read_record(row, regions[place], context[place])
        return regions.reshape(-1, self._spec.regions, self._spec.region_width), context

    def verify(self) -> None:
        """Read everything once and compare the checksums; damage is refused by the image's key."""
        for row, (key, checksum) in enumerate(zip(self._index, self._checksums, strict=True)):
            record = np.empty(self._record // 2, np.float16)
            self._read_record(row, record[: self._cells], record[self._cells :])
            if zlib.crc32(record.view(np.uint8).data) != checksum:
                raise InputError(
                    f'{self.path / RECORDS} is damaged: the features of "{key}" (row {row}) do not fit their '
                    "checksum; restore the store from a copy, or delete it and extract again"
                )

    def close(self) -> None:
        """Close the files and let another writer in."""
        self._file.close()
        self._journal.close()
        if self._lock is not None:
            self._lock.release()

    def __enter__(self) -> "FeatureStore":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_file"):
            self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return FeatureStore.open, (self.path,)

    def __repr__(self) -> str:
        spec = self._spec
        shape = f"{spec.regions} x {spec.region_width} + {spec.context_width}"
        return f"FeatureStore({str(self.path)!r}, {len(self)} images, {spec.backbone}, {shape})"

    def _count(self, keys: Sequence[str], checksums: Sequence[int], sources: Sequence[str] | None) -> None:
        for key in keys:
            self._index[key] = len(self._index)
        self._checksums.extend(checksums)
        if self._lock is not None and sources is not None:
            self._sources.update(zip(keys, sources, strict=True))

    def _open_records(self) -> Any:
        path = self.path / RECORDS
        if self._lock is not None:
            path.touch()
            (self.path / JOURNAL).touch()
        committed = len(self) * self._record
        found = path.stat().st_size if path.exists() else 0
        if found < committed:
            raise InputError(
                f"{path} is cut short: {len(self)} images of {self._record} bytes need {committed} bytes, "
                f"it has {found}; restore the store from a copy, or delete it and extract again"
            )
        if not path.exists():
            return Path(os.devnull).open("rb", buffering=0)  # a store that was created but never written
        file = path.open("rb" if self._lock is None else "r+b", buffering=0)
        if self._lock is not None:
            file.truncate(committed)
            sync_folder(self.path)
        return file

    def _check_keys(self, keys: Sequence[str]) -> None:
        if isinstance(keys, str):
            raise InputError(f'keys must be a list of strings, not the string "{keys}"')
        new: set[str] = set()
        for key in keys:
            if not isinstance(key, str) or not key:
                raise InputError(f"{self.path}: a key must be a string that is not empty, not {key!r}")
            if key in self._index or key in new:
                raise InputError(f'{self.path}: "{key}" is stored already: every key is stored once')
            new.add(key)

    def _pack(self, keys: Sequence[str], regions: npt.NDArray[Any], context: npt.NDArray[Any]) -> Half:
        spec = self._spec
        for name, array, shape in (
            ("regions", regions, (len(keys), spec.regions, spec.region_width)),
            ("context", context, (len(keys), spec.context_width)),
        ):
            if array.shape != shape:
                raise InputError(f"{self.path}: {name} have shape {array.shape}, these keys need {shape}")
            if not np.issubdtype(array.dtype, np.floating):
                raise InputError(f"{self.path}: {name} are {array.dtype}, not floating point numbers")
        records = np.empty((len(keys), self._record // 2), np.float16)
        with np.errstate(over="ignore"):
            records[:, : self._cells] = regions.reshape(len(keys), -1)
            records[:, self._cells :] = context
        for key, record in zip(keys, records, strict=True):
            if ((record.view(np.uint16) & _EXPONENT) == _EXPONENT).any():
                raise InputError(f'{self.path}: the features of "{key}" are not all finite float16 numbers')
        return records

    def _announce(self, rows: list[int]) -> None:
        """Tell the kernel what comes, so that it fetches the records side by side if they are not cached."""
        if hasattr(os, "posix_fadvise"):
            descriptor = self._file.fileno()
            for row in rows:
                os.posix_fadvise(descriptor, row * self._record, self._record, os.POSIX_FADV_WILLNEED)

    def _read_record(self, row: int, regions: Half, context: Half) -> None:
        """Fill two arrays with one record.

        A read rather than a memory map: as fast, asks the disk for a whole record at once, does not swell the
        process, and a file cut short under our feet is a sentence instead of a SIGBUS.
        """
        buffers = [regions.view(np.uint8).data, context.view(np.uint8).data]
        if hasattr(os, "preadv"):
            count = os.preadv(self._file.fileno(), buffers, row * self._record)
        else:
            with self._seeking:
                self._file.seek(row * self._record)
                count = sum(self._file.readinto(buffer) for buffer in buffers)
        if count != self._record:
            raise InputError(f"{self.path / RECORDS} is cut short: row {row} has {count} of {self._record} bytes")


@contextmanager
def _as_sentence(path: Path, what: str, kind: type[SmlstmError] = SmlstmError, then: str = "") -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise kind(f"{error.filename or path} cannot be {what}: {error.strerror}{then}") from error
