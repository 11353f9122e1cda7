"""Whether a library is whole: every file compared with its seal, every row with its checksum."""

import operator
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from smlstm.search.damage import DamagedLibrary, told_as_damage
from smlstm.search.lance_table import Table, checksum, file_id, matrix
from smlstm.search.manifest import COPY, NAME, read_manifest
from smlstm.search.nearest import INDEX
from smlstm.search.seals import NAME as SEALS
from smlstm.search.seals import is_as_sealed, read_seals, seals_are_damaged

ROWS_AT_A_TIME = 256
Whole = Callable[[pa.RecordBatch], list[bool]]


@dataclass
class Health:
    """What is wrong with a library; empty lists: nothing."""

    problems: list[str] = field(default_factory=list)
    damaged: list[int] = field(default_factory=list)
    """Contents of photos whose bytes are not those that were stored."""
    orphans: list[int] = field(default_factory=list)
    """Files whose photo is not stored."""
    unreadable: list[Path] = field(default_factory=list)
    """Tables of which at least a part is damaged."""
    kept: list[str] = field(default_factory=list)
    """What `repair` could keep of what was damaged, and what was lost."""

    def __bool__(self) -> bool:
        return bool(self.problems)

    def tell(self, table: Table, problem: str) -> None:
        """Note what is wrong with a table."""
        self.problems.append(problem)
        if table.path not in self.unreadable:
            self.unreadable.append(table.path)


def check(library: Path, files: Table, photos: Table) -> Health:
    """Read a library from end to end and compare it with its checksums."""
    health = Health()
    for name in (NAME, COPY):
        try:
            read_manifest(library, name)
        except DamagedLibrary as error:
            health.problems.append(error.finding)
    if (library / "lock").is_dir():
        health.problems.append(f"{library / 'lock'} is a folder: nothing can be written")
    stored: set[int] = set()
    for batch, whole in examined(photos, whole_photos, health):
        for content, good in zip(batch["content"].to_pylist(), whole, strict=True):
            (stored.add if good else health.damaged.append)(content)
    for batch, whole in examined(files, whole_files, health):
        columns = (batch[name].to_pylist() for name in ("file", "content", "reason"))
        health.orphans += [
            file
            for file, content, reason, good in zip(*columns, whole, strict=True)
            if good and reason is None and content not in stored
        ]
    if health.orphans and photos.path not in health.unreadable:
        health.problems.append(f"{len(health.orphans)} files have no stored photo: they cannot be found")
    return health


def damaged_files(table: Path, wholly: bool = True) -> list[str]:
    """The files of a table that are not as they were written, by their paths within it."""
    seals = read_seals(table)
    return [name for name, each in seals.files.items() if not is_as_sealed(table / name, each, wholly)]


def examined(table: Table, whole: Whole, health: Health) -> Iterator[tuple[pa.RecordBatch, list[bool]]]:
    """All that can be read of a table, piece by piece, and which of its rows are whole; what is not is told."""
    wrong = 0
    for batch in _readable(table, health):
        good = whole(batch)
        wrong += good.count(False)
        yield batch, good
    if wrong:
        health.tell(table, f"{wrong} rows of {table.path} are damaged: their checksums do not fit")


def _readable(table: Table, health: Health) -> Iterator[pa.RecordBatch]:
    if seals_are_damaged(table.path):
        health.tell(table, f"{table.path / SEALS} or its copy is damaged: it holds the checksums of the table's files")
    try:
        damaged = damaged_files(table.path)
        for name in damaged:
            health.tell(table, f"{table.path / name} is damaged: its checksum does not fit")
        if damaged:
            return  # Lance would trust it, and may take the process along
    except ValueError:
        return  # nothing is known of any file
    try:
        dataset = table.dataset
        with told_as_damage(table.path):
            fragments = [] if dataset is None else dataset.get_fragments()
    except DamagedLibrary as error:
        if table.path not in health.unreadable:
            health.tell(table, error.finding)
        return
    for fragment in fragments:
        try:
            with told_as_damage(table.path):
                yield from map(table.valid, fragment.to_batches(columns=table.schema.names, batch_size=ROWS_AT_A_TIME))
        except DamagedLibrary as error:
            health.tell(table, f"a part of {error.finding}")
    if dataset is not None:
        _check_rest(table, dataset, health)


def _check_rest(table: Table, dataset: Any, health: Health) -> None:
    """What a search by rows may not read: older versions, which compacting does, and the index of vectors."""
    try:
        with told_as_damage(table.path):
            dataset.versions()
            for index in dataset.describe_indices():
                if index.name == INDEX:
                    vector = np.ones(table.schema.field("embedding").type.list_size, np.float32)
                    everywhere = {"column": "embedding", "q": vector, "k": 1, "nprobes": 1 << 30}
                    dataset.to_table(columns=["content", "_distance"], nearest=everywhere)
    except DamagedLibrary as error:
        health.tell(table, error.finding)


def whole_photos(batch: pa.RecordBatch) -> list[bool]:
    """Whether each row of photos has the bytes that its checksum was taken of."""
    table = pa.Table.from_batches([batch])
    sums = [checksum(*each) for each in zip(matrix(table["embedding"]), matrix(table["regions"]), strict=True)]
    return list(map(operator.eq, batch["checksum"].to_pylist(), sums))


def whole_files(batch: pa.RecordBatch) -> list[bool]:
    """Whether each row of files has the path that its number is the hash of."""
    numbers = [file_id(os.fsdecode(path)) for path in batch["path"].to_pylist()]
    return list(map(operator.eq, batch["file"].to_pylist(), numbers))
