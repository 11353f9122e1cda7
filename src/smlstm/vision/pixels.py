"""Decoding in this process: bytes of a known format become an upright RGB photo or one exception with a sentence."""

import io
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

from PIL import Image
from PIL.Image import Transpose
from PIL.ImageFile import ImageFile

from smlstm.errors import MissingDependencyError
from smlstm.vision.colours import to_rgb
from smlstm.vision.formats import is_camera_raw, open_format
from smlstm.vision.raw import decode_raw
from smlstm.vision.unreadable import UnreadablePhoto

_MEGA = 1_000_000
# A JPEG is decoded at no less than twice the wanted size, so that the last step down is a proper filter.
_DRAFT_GAP = 2

_ORIENTATION_TAG = 0x0112
_UPRIGHT = {
    2: Transpose.FLIP_LEFT_RIGHT,
    3: Transpose.ROTATE_180,
    4: Transpose.FLIP_TOP_BOTTOM,
    5: Transpose.TRANSPOSE,
    6: Transpose.ROTATE_270,
    7: Transpose.TRANSVERSE,
    8: Transpose.ROTATE_90,
}


@contextmanager
def refusing(kind: str, name: str) -> Iterator[None]:
    """Turn whatever a reader raises into `UnreadablePhoto`, and keep its warnings quiet."""
    try:
        with _quiet():
            yield
    except (UnreadablePhoto, MemoryError):
        raise
    except MissingDependencyError as missing:
        raise UnreadablePhoto(name, str(missing)) from None
    # Pillow's readers let whatever a hostile file provokes escape: struct.error, SyntaxError, KeyError, ...
    except Exception as error:
        detail = str(error).strip().rstrip(".") or type(error).__name__
        raise UnreadablePhoto(name, f"the {kind} data is damaged or incomplete ({detail})") from None


def is_raw(kind: str, data: bytes) -> bool:
    """Whether a photo is a camera's raw file, which Pillow does not read."""
    return kind == "RAW" or (kind == "TIFF" and is_camera_raw(io.BytesIO(data)))


def open_photo(kind: str, file: BinaryIO, name: str, limit_megapixels: float) -> ImageFile:
    """Read a photo's header, and refuse one over the limit."""
    try:
        image = open_format(kind, file)
    except Image.DecompressionBombError:
        # Some readers check the size of what they are about to allocate themselves.
        raise UnreadablePhoto(
            name,
            f"it is far over the limit of {limit_megapixels:g} megapixels (--limit-megapixels raises it)",
        ) from None
    check_pixels(*image.size, name, limit_megapixels)
    return image


def check_pixels(width: int, height: int, name: str, limit_megapixels: float) -> None:
    """Refuse a photo over the limit."""
    if width * height > limit_megapixels * _MEGA:
        raise UnreadablePhoto(
            name,
            f"{width} x {height} pixels are over the limit of {limit_megapixels:g} megapixels "
            "(--limit-megapixels raises it)",
        )


def decode_here(kind: str, data: bytes, name: str, at_least: int | None, limit_megapixels: float) -> Image.Image:
    """Decode a photo in this thread, for as long as it takes."""
    with refusing(kind, name):
        file = io.BytesIO(data)
        if is_raw(kind, data):
            return decode_raw(file, at_least, lambda width, height: check_pixels(width, height, name, limit_megapixels))
        with open_photo(kind, file, name, limit_megapixels) as image:
            if at_least is not None:
                image.draft(None, (at_least * _DRAFT_GAP, at_least * _DRAFT_GAP))
            return _load(image)


def _load(image: ImageFile) -> Image.Image:
    image.load()
    turn = _UPRIGHT.get(_orientation(image))
    rgb = to_rgb(image)
    if turn is not None:
        return rgb.transpose(turn)
    # A copy shares no state with the reader, which is closed when the file is.
    return rgb.copy() if rgb is image else rgb


def _orientation(image: Image.Image) -> int:
    """Read the EXIF orientation; damaged EXIF data does not make a photo unreadable."""
    try:
        return int(image.getexif().get(_ORIENTATION_TAG, 1))
    except Exception:  # as above: any exception at all
        return 1


class _Quiet:
    """Hides Pillow's warnings for as long as any thread decodes.

    `warnings.catch_warnings` alone is not safe across threads: interleaved exits would leave the filter behind.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._saved = warnings.catch_warnings()

    @contextmanager
    def __call__(self) -> Iterator[None]:
        with self._lock:
            self._users += 1
            if self._users == 1:
                self._saved = warnings.catch_warnings()
                self._saved.__enter__()
                warnings.filterwarnings("ignore", module=r"PIL(\.|$)")
                warnings.filterwarnings("ignore", category=Image.DecompressionBombWarning)
        try:
            yield
        finally:
            with self._lock:
                self._users -= 1
                if self._users == 0:
                    self._saved.__exit__(None, None, None)


_quiet = _Quiet()
