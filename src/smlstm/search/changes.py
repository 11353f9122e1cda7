"""What differs between a folder and what the library knows of it, found without opening a file."""

import errno
import os
import stat
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from smlstm.data.photos import photo_entries
from smlstm.errors import InputError
from smlstm.search.lance_table import Table, file_id
from smlstm.search.manifest import Folder, Manifest

_PASSING = {os.strerror(code) for code in errno.errorcode} | {
    "there is no such file",
    "it was changed while it was read",
    "it needs more memory than there is",
}
"""Reasons that earlier versions recorded as the file's own."""


@dataclass(frozen=True)
class Seen:
    """A file as the folder shows it, and what the library knew under its path."""

    path: str
    size: int
    modified: int
    known: int | None = None
    """The content that the library knows under this path."""
    regular: bool = True


@dataclass
class Plan:
    """What there is to do."""

    todo: list[Seen] = field(default_factory=list)
    """New and changed files, and those whose photo the model at hand has not seen."""
    gone: dict[int, int] = field(default_factory=dict)
    """Files that are no longer there, with their contents."""
    unchanged: int = 0
    notes: list[str] = field(default_factory=list)
    """Folders that could not be read: what is known of them is kept."""
    unreachable: dict[str, str] = field(default_factory=dict)
    """Files that are named there but cannot be looked at, and why: what is known of them is kept."""
    contents: set[int] = field(default_factory=set)
    """Contents of all files that are there and known."""


@dataclass(frozen=True)
class Known:
    """A file as the library knows it."""

    size: int
    modified: int
    content: int
    usable: bool
    excused: bool = False
    """Whether it was held unusable for a reason that was not its own, as earlier versions did."""


def known_files(files: Table) -> dict[str, Known]:
    """All files of the library by path."""
    rows = files.read(["path", "size", "modified", "content", "reason"])
    columns = (rows[name].to_pylist() for name in ("path", "size", "modified", "content", "reason"))
    return {
        os.fsdecode(path): Known(size, modified, content, reason is None, reason in _PASSING)
        for path, size, modified, content, reason in zip(*columns, strict=True)
    }


def find_changes(
    folders: Sequence[str], manifest: Manifest, files: Table, photos: Iterable[int], retry: bool = False
) -> Plan:
    """Compare folders with the library; `photos` are the contents that the model at hand has seen.

    A file whose size and time are as they were is taken to be the same. `retry` looks again at those that could not
    be used.
    """
    plan, known, seen = Plan(), known_files(files), set[str]()
    photos = set(photos)
    unread: list[Folder] = []

    def unreadable(folder: Path, error: OSError) -> None:
        unread.append(Folder(str(folder)))
        plan.notes.append(f"{folder} cannot be read ({error.strerror}): what is known of it is kept")

    excluded = manifest.excludes if any(folder.exclude for folder in manifest.folders) else None
    walked = []
    for folder in folders:
        if not Path(folder).is_dir():
            plan.notes.append(f"{folder} is not there: what is known of it is kept")
            continue
        walked.append(Folder(folder))
        for entry in photo_entries(Path(folder), unreadable, excluded):
            if entry.path in seen:
                continue
            seen.add(entry.path)
            _compare(entry, known.get(entry.path), photos, plan, retry)
    for path, each in known.items():
        if path in seen:
            continue
        there = not any(folder.holds(path) for folder in walked) or any(folder.holds(path) for folder in unread)
        if there:
            plan.contents.add(each.content)
        else:
            plan.gone[file_id(path)] = each.content
    return plan


def _compare(entry: os.DirEntry[str], known: Known | None, photos: set[int], plan: Plan, retry: bool) -> None:
    try:
        status = entry.stat()
    except OSError as error:  # it went away, or is a link to nowhere
        plan.unreachable[entry.path] = error.strerror or str(error)
        if known is not None:
            plan.contents.add(known.content)
        return
    same = known is not None and (status.st_size, status.st_mtime_ns) == (known.size, known.modified)
    if known is not None and same and (known.content in photos or not (known.usable or known.excused or retry)):
        plan.contents.add(known.content)
        plan.unchanged += 1
        return
    regular = stat.S_ISREG(status.st_mode)
    known_content = known.content if known is not None else None
    plan.todo.append(Seen(entry.path, status.st_size, status.st_mtime_ns, known_content, regular))


def real_folder(folder: str | Path) -> str:
    """A folder by its one real, absolute name."""
    path = Path(folder).expanduser()
    if not path.exists():
        raise InputError(f"there is no folder {path}")
    if not path.is_dir():
        raise InputError(f"{path} is a file: give the folder that it is in")
    return str(path.resolve())
