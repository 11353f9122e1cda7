"""Looking after a library: what it holds, and letting go of what nobody needs."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from smlstm.errors import InputError
from smlstm.search.lance_table import Table
from smlstm.search.manifest import Manifest, read_manifest, write_manifest


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
    bytes_per_photo: int


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
        bytes_per_photo=photos.bytes // len(stored) if len(stored) else 0,
    )


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
