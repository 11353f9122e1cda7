"""What a photo's features were made from, so that another photo under the same key is noticed.

Kept as `place-content`, two hashes: one of the file's path, size and time of change, one of its bytes. Where the
first is as it was, the file is taken to be the same without reading it; where it is not (the folder was copied or
touched), the bytes decide.
"""

import errno
import os
import stat
from pathlib import Path

from smlstm.files import fingerprint

_HASH_BYTES = 8
_NONBLOCK = getattr(os, "O_NONBLOCK", 0)


def place_of(path: Path) -> str:
    """Hash a file's path, size and time of change."""
    return _place(path, path.stat())


def _place(path: Path, status: os.stat_result) -> str:
    return _hash(f"{path.absolute()}\0{status.st_size}\0{status.st_mtime_ns}".encode("utf-8", "surrogateescape"))


def source_of(path: Path) -> str:
    """Describe a file as `place-content`."""
    place = place_of(path)
    return f"{place}-{_content_of(path)}"


def described(path: Path, status: os.stat_result, data: bytes) -> str:
    """Describe a file whose state and bytes are at hand, as `source_of` does."""
    return f"{_place(path, status)}-{_hash(data)}"


def is_source(path: Path, source: str) -> bool:
    """Whether a file is the one that was described; one that is gone or cannot be read counts as if it were."""
    place, _, content = source.partition("-")
    try:
        return place_of(path) == place or _content_of(path) == content
    except OSError:
        return True


def content_hash(data: bytes) -> str:
    """Hash bytes as those of a file are."""
    return _hash(data)


def _content_of(path: Path) -> str:
    # Without waiting: a pipe that has taken the place of a photo would keep us for ever.
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | _NONBLOCK)) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", str(path))
        return fingerprint(iter(lambda: file.read(2**18), b""), _HASH_BYTES)


def _hash(content: bytes) -> str:
    return fingerprint([content], _HASH_BYTES)
