"""Safe decoding: any file becomes an upright RGB photo or one exception with a sentence, in bounded time and memory.

What decides is the content, never the name. The size is checked from the header, before a pixel is decoded. Where the
header bounds the work too, a photo is decoded in the calling thread; else in a process that can be stopped.
"""

import io
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from PIL import Image
from PIL.ImageFile import ImageFile

from smlstm.photo_formats import SNIFFED_BYTES, sniff
from smlstm.vision.decoder_process import decode_elsewhere
from smlstm.vision.pixels import decode_here, is_raw, open_photo, refusing
from smlstm.vision.reading import LARGE_BYTES, check_bytes, one_large_photo, read_file
from smlstm.vision.scans import MOST_SCANS, count_scans
from smlstm.vision.unreadable import UnreachablePhoto, UnreadablePhoto

LIMIT_MEGAPIXELS = 100.0
READABLE = "JPEG, PNG, WebP, AVIF, GIF, BMP, TIFF, HEIC and camera RAW"

_LARGE_PIXELS = 30_000_000
# Their decoders go over each pixel once; a JPEG's go over them once a scan, some seconds in all for this many.
_BOUNDED = ("PNG", "WEBP", "GIF")
_PIXELS_IN_SCANS = 1_000_000_000


def read_photo(
    path: Path | str, *, at_least: int | None = None, limit_megapixels: float = LIMIT_MEGAPIXELS
) -> Image.Image:
    """Read a photo as upright 8-bit RGB, or raise `UnreadablePhoto`: `UnreachablePhoto` if the file is not at fault.

    `at_least` is the side of the square that the caller will squash the photo to: a JPEG may then be decoded at
    a fraction of its size, no side less than twice `at_least`, which is several times faster.
    """
    with read_file(path, limit_megapixels) as (data, _):
        return decode_photo(data, name=str(path), at_least=at_least, limit_megapixels=limit_megapixels)


def decode_photo(
    data: bytes,
    *,
    name: str = "upload",
    at_least: int | None = None,
    limit_megapixels: float = LIMIT_MEGAPIXELS,
) -> Image.Image:
    """Decode a photo that is already in memory; `name` stands for it in messages. See `read_photo`."""
    with decoded_photo(data, name=name, at_least=at_least, limit_megapixels=limit_megapixels) as photo:
        return photo


@contextmanager
def decoded_photo(
    data: bytes,
    *,
    name: str = "upload",
    at_least: int | None = None,
    limit_megapixels: float = LIMIT_MEGAPIXELS,
) -> Iterator[Image.Image]:
    """Decode a photo for as long as the caller needs it: large ones are held one at a time."""
    with ExitStack() as held:
        yield _decode(data, name, at_least, limit_megapixels, held)


def _decode(data: bytes, name: str, at_least: int | None, limit_megapixels: float, held: ExitStack) -> Image.Image:
    if not data:
        raise UnreadablePhoto(name, "the file is empty")
    check_bytes(len(data), name, limit_megapixels)
    kind = sniff(data[:SNIFFED_BYTES])
    if kind is None:
        raise UnreadablePhoto(name, f"its content is not in a format that is read here ({READABLE})")
    try:
        large, bounded = _look_at(kind, data, name, limit_megapixels)
        if large:
            held.enter_context(one_large_photo)
        decode = decode_here if bounded else decode_elsewhere
        return decode(kind, data, name, at_least, limit_megapixels)
    except MemoryError:  # this process has not enough left, which says little about the photo
        raise UnreachablePhoto(name, "there is not enough memory to decode it") from None


def _look_at(kind: str, data: bytes, name: str, limit_megapixels: float) -> tuple[bool, bool]:
    """Tell from a header whether a photo is large, and whether the work of decoding it is bounded."""
    with refusing(kind, name):
        if is_raw(kind, data):
            return True, False
        with open_photo(kind, io.BytesIO(data), name, limit_megapixels) as image:
            pixels = image.width * image.height
            return pixels > _LARGE_PIXELS, len(data) <= LARGE_BYTES and _is_bounded(kind, image, data, name)


def _is_bounded(kind: str, image: ImageFile, data: bytes, name: str) -> bool:
    if kind == "BMP":  # run lengths are read one by one in Python
        return image.info.get("compression") == 0
    if kind != "JPEG":
        return kind in _BOUNDED
    scans = count_scans(data)
    if scans > MOST_SCANS:
        raise UnreadablePhoto(
            name, f"it has more than {MOST_SCANS} scans, each of which goes over all pixels; a photo has about ten"
        )
    return scans * image.width * image.height <= _PIXELS_IN_SCANS
