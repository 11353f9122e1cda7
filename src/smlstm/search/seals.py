"""Checksums of a table's files, by which damage is noticed before Lance reads it.

Lance has no checksums. Of 3000 small damages to a library it took 138 for other rows without a word (and went back to
an older version for 35 lost ones), and 8 ended the whole process: an error text with a zero byte, or the allocation of
absurd lengths, aborts in Rust, which no `except` can catch. So what Lance trusts blindly (versions, deletions, the
ends of data files, where their layout is told) is compared with `checksums.json` before it is opened, and every byte
by `smlstm library check`.

Files without a checksum are trusted: those of a library from before there were any, or of a process killed right
after a commit. The next writer writes theirs.
"""

import json
import os
import secrets
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from smlstm.files import write_whole

NAME, COPY = "checksums.json", "checksums.json.copy"
_FOOTER = struct.Struct("<QQQIIHH4s")
"""Places of the columns' descriptions, of their list, of the list of shared buffers; counts; version; magic."""
_END = 1 << 16
"""What is taken for the layout of a file with another footer."""
_PIECE = 1 << 20
_LARGE = 1 << 26
"""Files above this that were not written just now are sealed by their layout alone: reading all would take minutes."""


@dataclass(frozen=True)
class Seal:
    """What a file must be."""

    size: int
    start: int
    """Where the part begins that tells the layout of the rest, up to the end."""
    layout: int
    """The checksum of that part."""
    whole: int | None
    """The checksum of all, where that is known."""


@dataclass
class Seals:
    """The seals of a table's files, by their paths within it."""

    made: str = ""
    """A name that the table has until it is written anew."""
    version: int = 0
    """The newest version; an older one on the disk means that one was lost."""
    files: dict[str, Seal] = field(default_factory=dict)


def pack_json(content: dict[str, Any]) -> bytes:
    """JSON with a checksum of itself."""
    return (json.dumps({**content, "checksum": _sum_of(content)}, indent=1) + "\n").encode()


def unpack_json(data: bytes) -> dict[str, Any]:
    """The content of such JSON; a ValueError where the checksum does not fit, and none needed."""
    content = json.loads(data)
    if not isinstance(content, dict):
        raise ValueError("it is no JSON object")
    if "checksum" in content and content.pop("checksum") != _sum_of(content):
        raise ValueError("its checksum does not fit")
    return content


def _sum_of(content: dict[str, Any]) -> int:
    return zlib.crc32(json.dumps(content, sort_keys=True).encode())


def read_seals(table: Path) -> Seals:
    """The seals of a table, or their copy; none where there are none; a ValueError if both are damaged."""
    try:
        found = _read(table / NAME)
    except ValueError:
        found = _read(table / COPY)
        if found is None:
            raise
    return found or _read(table / COPY) or Seals()


def seals_are_damaged(table: Path) -> bool:
    """Whether the seals or their copy are; a copy that is missing is not, since it is written last."""
    try:
        seals, copy = _read(table / NAME), _read(table / COPY)
        return seals is None and copy is not None
    except ValueError:
        return True


def _read(path: Path) -> Seals | None:
    try:
        content = unpack_json(path.read_bytes())
        files = {str(name): Seal(*map(_number, each)) for name, each in content["files"].items()}  # type: ignore[arg-type]
        return Seals(str(content["made"]), int(content["version"]), files)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except PermissionError:
        raise
    except (OSError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ValueError(str(error)) from None


def _number(value: Any) -> int | None:
    return None if value is None else int(value)


def seal(table: Path, version: int, since: Seals) -> None:
    """Seal what is not sealed yet; only for who holds the library's lock."""
    files = {name: since.files.get(name) or _seal_of(table / name, bool(since.made)) for name in files_of(table)}
    content = {
        "made": since.made or secrets.token_hex(8),
        "version": version,
        "files": {name: [each.size, each.start, each.layout, each.whole] for name, each in sorted(files.items())},
    }
    for name in (NAME, COPY):
        write_whole(table / name, pack_json(content))


def files_of(table: Path) -> Iterator[str]:
    """The files of a table, by their paths within it."""
    for path in table.rglob("*"):
        if path.is_file() and path.parent != table and path.suffix != ".json":  # Lance's hint, which is written over
            yield path.relative_to(table).as_posix()


def is_as_sealed(path: Path, sealed: Seal, wholly: bool) -> bool:
    """Whether a file is what was written; a missing one is not judged, since another process may have let it go."""
    try:
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_size != sealed.size:
                return False
            if wholly and sealed.whole is not None and _sum_from(file, 0) != sealed.whole:
                return False
            return _sum_from(file, sealed.start) == sealed.layout
    except FileNotFoundError:
        return True
    except PermissionError:
        raise
    except OSError:  # a folder in its place, or a disk that fails
        return False


def _seal_of(path: Path, just_written: bool) -> Seal:
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        whole = _sum_from(file, 0) if just_written or size < _LARGE else None
        start = _layout_of(file, size) if path.suffix in (".lance", ".idx") else 0
        return Seal(size, start, _sum_from(file, start), whole)


def _layout_of(file: Any, size: int) -> int:
    """Where in a Lance file the descriptions of its columns and its schema begin, by its footer."""
    if size < _FOOTER.size:
        return 0
    file.seek(size - _FOOTER.size)
    columns, _, buffers, count, *_, magic = _FOOTER.unpack(file.read(_FOOTER.size))
    if magic == b"LANC" and columns <= size and buffers + 16 * count <= size:
        file.seek(buffers)
        places = [struct.unpack("<QQ", file.read(16))[0] for _ in range(count)]
        return int(min([columns, buffers, *places]))
    return max(0, size - _END)


def _sum_from(file: Any, start: int) -> int:
    file.seek(start)
    value = 0
    while piece := file.read(_PIECE):
        value = zlib.crc32(piece, value)
    return value
