"""Photos of the library as pictures for a browser: only what was indexed, byte for byte, and always encoded anew.

A file is read once, compared with the content that the library knows, decoded as everywhere, and written as JPEG
without what a camera put beside the pixels. What has taken a file's place since, a link to elsewhere say, is not shown.
"""

import io
import os
import stat
import threading
from pathlib import Path

from cachetools import LRUCache
from PIL import Image

from smlstm.search.lance_table import content_of_bytes
from smlstm.vision import UnreadablePhoto
from smlstm.vision.decode import decode_photo
from smlstm.web.problems import NotFound

SIDES = {"thumbnail": 320, "picture": 1600}
_CACHE_BYTES = 64 << 20
_MOST_BYTES = 1 << 30


class Pictures:
    """Encoded pictures, the latest kept in memory."""

    def __init__(self) -> None:
        self._kept: LRUCache[tuple[int, str], bytes] = LRUCache(_CACHE_BYTES, getsizeof=len)
        self._guard = threading.Lock()

    def get(self, content: int, files: list[Path], size: str) -> bytes:
        """A photo as JPEG, from the first of its files that still has it."""
        key = (content, size)
        with self._guard:
            if key in self._kept:
                return self._kept[key]
        encoded = as_jpeg(read_picture(content, files, SIDES[size]))
        if size == "thumbnail" and len(encoded) <= self._kept.maxsize:
            with self._guard:
                self._kept[key] = encoded
        return encoded


def read_picture(content: int, files: list[Path], side: int) -> Image.Image:
    """A photo at a size at which it is shown, if one of these files still has that content."""
    for path in files:
        try:
            data = _read(path)
            if data is None or content_of_bytes(data) != content:
                continue
            photo = decode_photo(data, name=path.name, at_least=side)
        except (OSError, UnreadablePhoto):
            continue
        photo.thumbnail((side, side), Image.Resampling.LANCZOS)
        return photo
    raise NotFound("the photo's file has changed or gone since it was indexed: bring the library in step")


def as_jpeg(picture: Image.Image) -> bytes:
    """A picture as the bytes of a JPEG."""
    file = io.BytesIO()
    picture.save(file, "JPEG", quality=85)
    return file.getvalue()


def as_png(picture: Image.Image) -> bytes:
    """A picture as the bytes of a PNG."""
    file = io.BytesIO()
    picture.save(file, "PNG")
    return file.getvalue()


def _read(path: Path) -> bytes | None:
    """The bytes of a regular file; opening must not wait for a pipe's writer."""
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    with os.fdopen(os.open(path, flags), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode) or status.st_size > _MOST_BYTES:
            return None
        return file.read()
