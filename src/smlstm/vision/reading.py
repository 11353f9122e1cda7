"""The bytes of a photo's file, read once: what is hashed is what is decoded, and failures here are not theirs."""

import os
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from smlstm.vision.sources import described
from smlstm.vision.unreadable import UnreachablePhoto, UnreadablePhoto

# Opening must not wait for a pipe's writer.
_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_MEGA = 1_000_000
# Eight bytes are the most a pixel takes (16-bit RGBA, uncompressed); the rest leaves room for metadata.
_BYTES_PER_PIXEL, _SPARE_BYTES = 8, 256 * 2**20
LARGE_BYTES = 64 * 2**20

one_large_photo = threading.RLock()
"""Held by who holds a large photo, so that peak memory does not grow with the number of threads."""


@contextmanager
def read_file(path: Path | str, limit_megapixels: float) -> Iterator[tuple[bytes, str]]:
    """Give a file's bytes and its source (see `sources`); large files are held one at a time.

    Raises `UnreachablePhoto` where the file cannot be read as it is now, `UnreadablePhoto` where it is no photo's.
    """
    large = _size(path) > LARGE_BYTES
    if large:
        one_large_photo.acquire()
    try:
        yield _read(path, limit_megapixels)
    finally:
        if large:
            one_large_photo.release()


def check_bytes(size: int, path: Path | str, limit_megapixels: float) -> None:
    """Refuse a file that is larger than any photo within the limit."""
    if size > limit_megapixels * _MEGA * _BYTES_PER_PIXEL + _SPARE_BYTES:
        raise UnreadablePhoto(
            path,
            f"the file is {size / _MEGA:.0f} MB, more than a photo of {limit_megapixels:g} megapixels needs "
            "(--limit-megapixels raises the limit)",
        )


def _size(path: Path | str) -> int:
    try:
        return Path(path).stat().st_size
    except (OSError, ValueError):  # which is for `_read` to say
        return 0


def _read(path: Path | str, limit_megapixels: float) -> tuple[bytes, str]:
    try:
        with open(path, "rb", opener=lambda name, _: os.open(name, _FLAGS)) as file:
            before = os.fstat(file.fileno())
            if not stat.S_ISREG(before.st_mode):
                raise UnreachablePhoto(path, "it is not a regular file")
            check_bytes(before.st_size, path, limit_megapixels)
            data = file.read()
            after = os.fstat(file.fileno())
    except IsADirectoryError:
        raise UnreachablePhoto(path, "it is not a regular file") from None
    except FileNotFoundError:
        raise UnreachablePhoto(path, "there is no such file") from None
    except OSError as error:
        raise UnreachablePhoto(path, error.strerror or str(error)) from None
    except UnreadablePhoto:
        raise
    except ValueError as error:
        raise UnreadablePhoto(path, f"the path is not valid ({error})") from None
    if (len(data), before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
        raise UnreachablePhoto(path, "it was changed while it was read")
    return data, described(Path(path), before, data)
