"""Looking after a library: what it holds, whether it is whole, mending it, and letting go of what nobody needs."""

import contextlib
import operator
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa

from smlstm.errors import InputError
from smlstm.search.manifest import NAME, Manifest, read_manifest, write_manifest
from smlstm.search.tables import Table, checksum, matrix

_ROWS_AT_A_TIME = 256


@dataclass(frozen=True)
class Stats:
    """What a library holds."""

    folder: str
    folders: list[dict[str, Any]]
    files: int
    photos: int
    """Different photos that a file has, as the model at hand sees them."""
    copies: int
    skipped: int
    unused: int
    """Photos that are stored but that no file has; `prune` deletes them."""
    bytes: int
    bytes_a_photo: int


@dataclass
class Health:
    """What is wrong with a library; empty lists: nothing."""

    problems: list[str] = field(default_factory=list)
    damaged: list[int] = field(default_factory=list)
    """Contents of photos whose bytes are not those that were stored."""
    orphans: list[int] = field(default_factory=list)
    """Files whose photo is not stored."""
    unreadable: list[Path] = field(default_factory=list)
    """Tables of which at least a part cannot be read."""

    def __bool__(self) -> bool:
        return bool(self.problems)


def photo_tables(library: Path, schema: pa.Schema | None = None) -> list[Table]:
    """The tables of photos of all models."""
    return [Table(path, schema or pa.schema([]), 1) for path in sorted(library.glob("photos-*.lance"))]


def stats(library: Path, files: Table, photos: Table) -> Stats:
    """Count."""
    rows = files.read(["content", "reason"])
    usable = np.array([reason is None for reason in rows["reason"].to_pylist()], bool)
    contents = rows["content"].to_numpy()[usable] if len(rows) else np.zeros(0, np.int64)
    stored = photos.read(["content"])["content"].to_numpy()
    there = np.isin(stored, contents)
    manifest = read_manifest(library) or Manifest()
    size = sum(path.stat().st_size for path in library.rglob("*") if path.is_file()) if library.exists() else 0
    return Stats(
        folder=str(library),
        folders=[{"path": each.path, "exclude": list(each.exclude)} for each in manifest.folders],
        files=int(usable.sum()),
        photos=int(there.sum()),
        copies=len(contents) - len(np.unique(contents)),
        skipped=int((~usable).sum()),
        unused=int((~there).sum()),
        bytes=size,
        bytes_a_photo=photos.bytes // len(stored) if len(stored) else 0,
    )


def check(library: Path, files: Table, photos: Table) -> Health:
    """Read a library from end to end and compare it with its checksums."""
    health = Health()
    try:
        if read_manifest(library) is None and (files.exists or photos.exists):
            health.problems.append(f"{library / NAME} is missing: the folders are not known")
    except InputError as error:
        health.problems.append(str(error))
    stored: set[int] = set()
    for batch in _readable(photos, ["content", "embedding", "regions", "checksum"], health):
        table = pa.Table.from_batches([batch])
        sums = [checksum(*each) for each in zip(matrix(table["embedding"]), matrix(table["regions"]), strict=True)]
        contents, expected = (batch[name].to_pylist() for name in ("content", "checksum"))
        for content, whole in zip(contents, map(operator.eq, expected, sums), strict=True):
            (stored.add if whole else health.damaged.append)(content)
    if health.damaged:
        health.problems.append(f"{len(health.damaged)} photos are damaged: their checksums do not fit")
    for batch in _readable(files, ["file", "content", "reason"], health):
        for row in batch.to_pylist():
            if row["reason"] is None and row["content"] not in stored:
                health.orphans.append(row["file"])
    if health.orphans:
        health.problems.append(f"{len(health.orphans)} files have no stored photo: they cannot be found")
    return health


def _readable(table: Table, columns: list[str], health: Health | None) -> Iterator[pa.RecordBatch]:
    """All that can be read of a table, piece by piece; what cannot is told."""
    try:
        dataset = lance.dataset(str(table.path)) if table.exists else None
        fragments = [] if dataset is None else dataset.get_fragments()
        if table.path.exists() and dataset is None:
            return  # a first commit that never was: the next one takes its place
    except (OSError, ValueError) as error:
        _tell(health, table, f"{table.path} cannot be opened ({str(error).splitlines()[0][:120]})")
        return
    for fragment in fragments:
        try:
            yield from fragment.to_batches(columns=columns, batch_size=_ROWS_AT_A_TIME)
        except (OSError, ValueError, RuntimeError) as error:
            _tell(health, table, f"a part of {table.path} cannot be read ({str(error).splitlines()[0][:120]})")


def _tell(health: Health | None, table: Table, problem: str) -> None:
    if health is not None:
        health.problems.append(problem)
        if table.path not in health.unreadable:
            health.unreadable.append(table.path)


def repair(library: Path, files: Table, photos: Table) -> Health:
    """Keep all that is whole and drop the rest, which the next indexing brings back; tells what was wrong.

    Only for who holds the library's lock.
    """
    health = check(library, files, photos)
    for table in (files, photos):
        if table.path in health.unreadable:
            _rescue(table)
    photos.delete("content", health.damaged)
    # Known contents may have gone with the photos' damage: what the files say of them counts no more.
    files.delete("file", check(library, files, photos).orphans)
    try:
        broken = read_manifest(library) is None and files.exists
    except InputError:
        broken = True
    if broken:
        write_manifest(library, Manifest())
    return health


def _rescue(table: Table) -> None:
    """Put what can be read of a table in its place."""
    saved = table.path.with_name(f".{table.path.name}.rescue")
    shutil.rmtree(saved, ignore_errors=True)
    fresh = Table(saved, table.schema, table.rows_a_fragment)
    for batch in _readable(table, table.schema.names, None):
        with contextlib.suppress(pa.ArrowInvalid):
            fresh.append(pa.Table.from_batches([batch]))
    table.drop()
    if saved.exists():
        saved.rename(table.path)


def prune(library: Path, files: Table, photos: Table) -> tuple[int, int]:
    """Delete photos that no file has, what other models stored, and old versions: photos and bytes let go of.

    Only for who holds the library's lock.
    """
    before = sum(path.stat().st_size for path in library.rglob("*") if path.is_file())
    wanted = files.read(["content"])["content"].to_numpy()
    stored = photos.read(["content"])["content"].to_numpy()
    unused = stored[~np.isin(stored, wanted)]
    photos.delete("content", unused.tolist())
    for table in photo_tables(library):
        if table.path != photos.path:
            table.drop()
    for table in (files, photos):
        table.compact(force=True)
    after = sum(path.stat().st_size for path in library.rglob("*") if path.is_file())
    return len(unused), max(0, before - after)


def forget(library: Path, files: Table, folder: str) -> int:
    """Let a folder go, and all files below it; their photos stay until `prune`. Only for who holds the lock."""
    manifest = read_manifest(library) or Manifest()
    kept = [each for each in manifest.folders if each.path != folder]
    if len(kept) == len(manifest.folders):
        known = ", ".join(each.path for each in manifest.folders) or "none"
        raise InputError(f"{folder} is not a folder of the library; its folders are: {known}")
    holder = next(each for each in manifest.folders if each.path == folder)
    manifest.folders = kept
    rows = files.read(["file", "path"])
    gone = [
        file
        for file, path in zip(rows["file"].to_pylist(), rows["path"].to_pylist(), strict=True)
        if holder.holds(os.fsdecode(path)) and manifest.folder_of(os.fsdecode(path)) is None
    ]
    write_manifest(library, manifest)
    files.delete("file", gone)
    return len(gone)
