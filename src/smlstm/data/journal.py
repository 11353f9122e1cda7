"""The journal: an append-only list of entries in which a torn end is told apart from damage.

Each line is `checksum length payload`. The checksum runs on from the line before, so a line that was changed,
removed or moved is noticed. A process killed while it appends leaves a last line without its end: that entry
never happened. Any other line that does not fit is damage, and is refused.
"""

import contextlib
import json
import os
import zlib
from pathlib import Path
from typing import Any

from smlstm.errors import InputError


class Journal:
    """A file of JSON entries; `append` returns only when the entry is on the disk."""

    def __init__(self, path: Path, seed: int) -> None:
        self.path = path
        self._checksum = seed
        self._size = 0
        self._file: Any = None

    def replay(self) -> list[Any]:
        """Read every complete entry; afterwards `append` continues behind the last one."""
        content = self.path.read_bytes() if self.path.exists() else b""
        *lines, tail = content.split(b"\n")
        entries = [self._accept(line, number) for number, line in enumerate(lines, start=1)]
        if _is_whole(tail):
            self._refuse(len(lines) + 1)
        return entries

    def _accept(self, line: bytes, number: int) -> Any:
        try:
            checksum, length, payload = line.split(b" ", 2)
            expected = zlib.crc32(payload, self._checksum)
            fits = (checksum, length) == (b"%08x" % expected, b"%d" % len(payload))
            entry = json.loads(payload) if fits else None
        except ValueError:
            entry = None
        if entry is None:
            self._refuse(number)
        self._checksum = expected
        self._size += len(line) + 1
        return entry

    def _refuse(self, number: int) -> None:
        raise InputError(
            f"{self.path} is damaged at line {number} (its checksum does not fit): restore the store "
            "from a copy, or delete it and extract again"
        )

    def append(self, entry: Any) -> None:
        """Add one entry, wholly or not at all."""
        payload = json.dumps(entry, separators=(",", ":")).encode("ascii")
        checksum = zlib.crc32(payload, self._checksum)
        line = b"%08x %d %s\n" % (checksum, len(payload), payload)
        if self._file is None:
            self._file = self.path.open("ab", buffering=0)
        try:
            self._file.truncate(self._size)
            write_all(self._file, line)
            os.fsync(self._file.fileno())
        except BaseException:
            with contextlib.suppress(OSError):
                self._file.truncate(self._size)
            raise
        self._checksum = checksum
        self._size += len(line)

    def close(self) -> None:
        """Close the file, if it was opened for appending."""
        if self._file is not None:
            self._file.close()
            self._file = None


def write_all(file: Any, content: Any) -> None:
    """Write to an unbuffered file until everything is written: one call may take only a part."""
    rest = memoryview(content)
    while rest:
        rest = rest[file.write(rest) :]


def _is_whole(tail: bytes) -> bool:
    """Whether a line without its end is as long as it says: then its end was changed, not cut."""
    parts = tail.split(b" ", 2)
    return len(parts) == 3 and parts[1].isdigit() and len(parts[2]) > int(parts[1])
