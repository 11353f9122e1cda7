"""What a photo's header tells of it, without a pixel decoded: its size, upright, and when it was taken."""

import io
import struct
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from PIL import Image
from PIL.PngImagePlugin import PngImageFile

from smlstm.photo_formats import SNIFFED_BYTES, sniff
from smlstm.vision.formats import open_format

_ORIENTATION, _ON_ITS_SIDE = 0x0112, (5, 6, 7, 8)
_PNG_HEAD = b"\x89PNG\r\n\x1a\n"
_EXIF_BLOCK, _DATE_ORIGINAL, _DATE_DIGITISED, _DATE_OF_FILE = 0x8769, 0x9003, 0x9004, 0x0132


@dataclass(frozen=True)
class About:
    """Width and height in pixels as the photo is shown, and the camera's time; None where it is not told."""

    width: int | None = None
    height: int | None = None
    taken: datetime | None = None
    """By the camera's clock, which knows no time zone."""


def about_photo(data: bytes) -> About:
    """Read a photo's header; nothing is told of what is no photo, and of a camera's raw file little."""
    # Pillow's readers let whatever a hostile file provokes escape.
    with suppress(Exception):
        kind = sniff(data[:SNIFFED_BYTES])
        if kind is None:
            return About()
        with open_format("TIFF" if kind == "RAW" else kind, io.BytesIO(data)) as image:
            size: tuple[int | None, int | None] = image.size if kind != "RAW" else (None, None)
            exif: Any = _png_exif(image, data) if isinstance(image, PngImageFile) else image.getexif()
            if exif.get(_ORIENTATION) in _ON_ITS_SIDE:
                size = size[::-1]
            return About(*size, _taken(exif))
    return About()


def _png_exif(image: PngImageFile, data: bytes) -> Image.Exif:
    """The EXIF block of a PNG, which may stand behind the pixels: Pillow would decode them to get there."""
    place = len(_PNG_HEAD)
    while "exif" not in image.info and place + 8 <= len(data):
        length, kind = struct.unpack_from(">I4s", data, place)
        if kind == b"eXIf":
            image.info["exif"] = b"Exif\0\0" + data[place + 8 : place + 8 + length]
        place += 12 + length
    return Image.Image.getexif(image)


def _taken(exif: Any) -> datetime | None:
    with suppress(Exception):
        inner = exif.get_ifd(_EXIF_BLOCK)
        for value in (inner.get(_DATE_ORIGINAL), inner.get(_DATE_DIGITISED), exif.get(_DATE_OF_FILE)):
            with suppress(ValueError):
                if value:
                    return datetime.strptime(str(value).strip("\0 ")[:19], "%Y:%m:%d %H:%M:%S")
    return None
