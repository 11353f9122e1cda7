"""Bringing a damaged library back to a whole one: what is whole is kept, the photos bring back the rest.

Files of a table that are not as they were written are deleted. If the newest version can be read without them, that
was all. Else the table is written anew:

- photos out of all data files, whatever the versions say: a row has a checksum, and one too many is harmless;
- files out of the newest version that can be read, since a row that was deleted should not come back.

Only for who holds the library's lock.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
from pyarrow import compute

from smlstm.search.damage import DamagedLibrary, told_as_damage
from smlstm.search.health import (
    ROWS_AT_A_TIME,
    Health,
    Whole,
    check,
    damaged_files,
    examined,
    whole_files,
    whole_photos,
)
from smlstm.search.lance_table import Table, content_of_bytes
from smlstm.search.manifest import COPY, NAME, Folder, Manifest, read_manifest, write_manifest
from smlstm.search.nearest import INDEX
from smlstm.search.rescue import rescued
from smlstm.search.seals import COPY as SEALS_COPY
from smlstm.search.seals import NAME as SEALS
from smlstm.search.seals import Seals, read_seals, seal
from smlstm.vision.photo_header import About, about_photo

Batches = Iterator[pa.RecordBatch]


def repair(library: Path, files: Table, photos: Table) -> Health:
    """Keep all that is whole and drop the rest, which the next indexing brings back; tells what was wrong."""
    for table in (files, photos):
        _end_interrupted_repair(table)
    health = check(library, files, photos)
    if not health:
        for table in (files, photos):
            table.seal()
        return health
    manifest = _mend_manifest(library)
    if files.path in health.unreadable:
        _mend(files, whole_files, health, lambda: _files_left(files, manifest.folders))
    if photos.path in health.unreadable:
        _mend(photos, whole_photos, health, lambda: _photos_left(photos, files))
    again = check(library, files, photos)
    if again.unreadable:  # nothing known leads here, and yet there must be a way out
        for path in again.unreadable:
            (files if path == files.path else photos).drop()
            health.kept.append(f"{path.name}: nothing of it could be kept")
        again = check(library, files, photos)
    files.delete("file", again.orphans)
    if again.orphans:
        health.kept.append(f"{len(again.orphans)} files have lost their photo and will be looked at again")
    if not manifest.folders:
        health.kept.append(_unknown_folders(files))
    return health


def free_lock(library: Path) -> None:
    """Delete a folder that stands in the place of the lock."""
    if (library / "lock").is_dir():
        shutil.rmtree(library / "lock")


def _mend_manifest(library: Path) -> Manifest:
    """Write `library.json` and its copy anew, with what one of them says."""
    said: list[Manifest | None] = []
    for name in (NAME, COPY):
        try:
            said.append(read_manifest(library, name))
        except DamagedLibrary:
            _delete(library / name)
    found = next((each for each in said if each is not None), Manifest())
    write_manifest(library, found)
    return found


def _unknown_folders(files: Table) -> str:
    """What to do where neither says anything. Folders are not guessed: what they left out would be taken in."""
    parents = {os.fsdecode(path).rpartition(os.sep)[0] for path in files.read(["path"])["path"].to_pylist()}
    outer = [path for path in sorted(parents) if not any(path != up and Folder(up).holds(path) for up in parents)]
    among = f" (its files lie in {', '.join(outer)})" if outer else ""
    return f"its folders are no longer known{among}: smlstm index FOLDER takes each in again, with its exclusions"


def _mend(table: Table, whole: Whole, health: Health, left: Callable[[], Batches]) -> None:
    """Delete what is damaged of a table, and write it anew if that is not enough."""
    if table.path.is_dir() and _is_enough(table, _delete_damaged(table), whole):
        health.kept.append(f"{table.path.name}: all {len(table)} rows are kept")
        return
    fresh = Table(_beside(table, "rescue"), table.schema, table.rows_per_fragment)
    fresh.drop()
    fresh.replace(left())
    kept = len(fresh)
    _delete(_beside(table, "damaged"))
    if table.path.exists():
        table.path.rename(_beside(table, "damaged"))
    if kept:
        fresh.path.rename(table.path)
    _end_interrupted_repair(table, done=True)
    health.kept.append(f"{table.path.name}: written anew with the {kept} rows that could be read")


def _end_interrupted_repair(table: Table, done: bool = False) -> None:
    """Put a table back that a killed process moved away, and delete what it left."""
    damaged = _beside(table, "damaged")
    if damaged.exists() and not table.path.exists() and not done:
        damaged.rename(table.path)
    for path in (damaged, _beside(table, "rescue")):
        _delete(path)


def _beside(table: Table, what: str) -> Path:
    return table.path.with_name(f".{table.path.name}.{what}")


def _delete(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _delete_damaged(table: Table) -> Seals:
    """Delete what must not be read: all that is damaged, but data files whose layout is whole, of which rows may be."""
    try:
        seals = read_seals(table.path)
        layouts = set(damaged_files(table.path, wholly=False))
        damaged = [name for name in damaged_files(table.path) if name in layouts or not name.startswith("data/")]
    except ValueError:
        seals, damaged = Seals(), []
    for name in (SEALS, SEALS_COPY, *damaged):
        _delete(table.path / name)
        seals.files.pop(name, None)
    if not seals.made:
        return seals
    seal(table.path, seals.version, seals)
    if any(name.startswith("_indices/") for name in damaged):
        with suppress(DamagedLibrary):  # the table is written anew then
            table.drop_index(INDEX)  # which the next indexing builds again
    return read_seals(table.path)


def _is_enough(table: Table, seals: Seals, whole: Whole) -> bool:
    """Whether a table is whole without what was deleted; it is sealed then."""
    found = Health()
    if not all(all(good) for _, good in examined(table, whole, found)) or found:
        return False
    seal(table.path, table.version[1], seals)
    return True


def _photos_left(photos: Table, files: Table) -> Batches:
    """Rows whose checksum fits. Of damaged files, what no checksum is of is read again from the photos."""
    try:
        damaged = set(damaged_files(photos.path))
    except ValueError:
        damaged = set()
    stored: set[int] = set()
    paths: dict[int, str] = {}
    for file in sorted((photos.path / "data").glob("*.lance")):
        doubtful = f"data/{file.name}" in damaged
        if doubtful and not paths:
            rows = files.read(["content", "path"])
            paths = dict(zip(rows["content"].to_pylist(), map(os.fsdecode, rows["path"].to_pylist()), strict=True))
        for batch in rescued(file, photos.schema.names):
            kept = _first_whole(batch, photos, whole_photos, "content", stored)
            if doubtful and kept is not None:
                kept = _with_facts(kept, paths)
            yield from _valid(kept, photos)


def _with_facts(batch: pa.RecordBatch, paths: dict[int, str]) -> pa.RecordBatch:
    """Photos with width, height and date as their files tell them, where these are there."""
    facts = [_facts(content, paths.get(content)) for content in batch["content"].to_pylist()]
    there = pa.array([each is not None for each in facts])
    for name in ("width", "height", "taken"):
        place, kind = batch.schema.get_field_index(name), batch.schema.field(name)
        told = pa.array([getattr(each, name, None) for each in facts], kind.type)
        batch = batch.set_column(place, kind, compute.if_else(there, told, batch[name]))
    return batch


def _facts(content: int, path: str | None) -> About | None:
    """What a photo's file tells of it, if the file is there and still this photo's."""
    try:
        data = Path(path).read_bytes() if path is not None else None
    except OSError:
        return None
    return about_photo(data) if data is not None and content_of_bytes(data) == content else None


def _files_left(files: Table, folders: list[Folder]) -> Batches:
    """Rows of the newest version that can be read; where rows may be out of date, only what can do no harm."""
    known: set[int] = set()
    for batch, doubtful in _file_batches(files):
        kept = _first_whole(batch, files, whole_files, "file", known)
        if doubtful and kept is not None:
            # What could not be used is looked at again, and a folder that was let go of does not come back.
            paths = map(os.fsdecode, kept["path"].to_pylist())
            held = [not folders or any(folder.holds(path) for folder in folders) for path in paths]
            kept = kept.filter(compute.and_(pa.array(held, pa.bool_()), compute.is_null(kept["reason"])))
        yield from _valid(kept, files)


def _read(fragment: Any, files: Table) -> list[pa.RecordBatch] | None:
    """The rows of a part that is not known to be damaged; None if it is."""
    try:
        with told_as_damage(files.path):
            return list(fragment.to_batches(columns=files.schema.names, batch_size=ROWS_AT_A_TIME))
    except DamagedLibrary:
        return None


def _file_batches(files: Table) -> Iterator[tuple[pa.RecordBatch, bool]]:
    """Rows of files, and whether they may be out of date or damaged."""
    try:
        newest, damaged = read_seals(files.path).version, set(damaged_files(files.path))
    except ValueError:
        newest, damaged = 0, set()
    dataset = _newest_readable(files)
    if dataset is None:
        for file in sorted((files.path / "data").glob("*.lance"), key=lambda path: -path.stat().st_mtime_ns):
            yield from ((batch, True) for batch in rescued(file, files.schema.names))
        return
    for fragment in dataset.get_fragments():
        data = [f"data/{each.path}" for each in fragment.data_files()]
        doubtful = dataset.version < newest or not damaged.isdisjoint(data)
        batches = None if doubtful else _read(fragment, files)
        if batches is None:  # perhaps only what tells its deleted rows is damaged
            doubtful = True
            batches = [batch for name in data for batch in rescued(files.path / name, files.schema.names)]
        yield from ((batch, doubtful) for batch in batches)


def _newest_readable(table: Table) -> Any:
    """The newest version that can be opened, the newer ones deleted; None without any."""
    for path in sorted((table.path / "_versions").glob("*.manifest"), key=_age):
        try:
            with told_as_damage(table.path):
                dataset = lance.dataset(str(table.path))
                dataset.get_fragments()
                return dataset
        except DamagedLibrary:
            _delete(path)
    return None


def _age(manifest: Path) -> int:
    """Lance names versions by their number, counted from 0 up or from 2^64 - 1 down."""
    number = int(manifest.stem) if manifest.stem.isdigit() else 0
    return number if number >= 1 << 63 else (1 << 63) - number


def _first_whole(batch: pa.RecordBatch, table: Table, whole: Whole, key: str, known: set[int]) -> pa.RecordBatch | None:
    """The rows that are whole and were not there before; None where nothing can be made of them."""
    try:
        with told_as_damage(table.path):
            batch = batch.cast(table.schema)
            keys, good = batch[key].to_pylist(), whole(batch)
            mask = []
            for each, fits in zip(keys, good, strict=True):
                mask.append(fits and each not in known)
                if mask[-1]:
                    known.add(each)
            return batch.filter(pa.array(mask, pa.bool_()))
    except DamagedLibrary:
        return None


def _valid(batch: pa.RecordBatch | None, table: Table) -> Batches:
    if batch is None or not len(batch):
        return
    try:
        with told_as_damage(table.path):
            rows = table.valid(batch)
    except DamagedLibrary:
        return
    yield rows
