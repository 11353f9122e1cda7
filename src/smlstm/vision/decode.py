"""Safe decoding: any file becomes an upright RGB photo or one exception with a sentence.

What decides is the content, never the name. The size is checked from the header, before a pixel is decoded.
"""

import io
import stat
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from PIL import Image
from PIL.Image import Transpose
from PIL.ImageFile import ImageFile

from smlstm.errors import InputError, MissingDependencyError
from smlstm.vision.colours import to_rgb
from smlstm.vision.formats import SNIFFED_BYTES, is_camera_raw, open_format, sniff
from smlstm.vision.raw import decode_raw

LIMIT_MEGAPIXELS = 100.0
READABLE = "JPEG, PNG, WebP, AVIF, GIF, BMP, TIFF, HEIC and camera RAW"

_MEGA = 1_000_000
# A JPEG is decoded at no less than twice the wanted size, so that the last step down is a proper filter.
_DRAFT_GAP = 2
# Eight bytes are the most a pixel takes (16-bit RGBA, uncompressed); the rest leaves room for metadata.
_BYTES_A_PIXEL, _SPARE_BYTES = 8, 256 * 2**20
# Photos above this are decoded one at a time, so that peak memory does not grow with the number of threads.
_LARGE_PIXELS = 30 * _MEGA
_large_photos = threading.Lock()

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


class UnreadablePhoto(InputError):
    """A file that is not a photo we can or want to decode; `reason` says why."""

    def __init__(self, path: Path | str, reason: str):
        super().__init__(f"cannot read photo {path}: {reason}")
        self.path = str(path)
        self.reason = reason


def read_photo(
    path: Path | str, *, at_least: int | None = None, limit_megapixels: float = LIMIT_MEGAPIXELS
) -> Image.Image:
    """Read a photo as upright 8-bit RGB, or raise `UnreadablePhoto`.

    `at_least` is the side of the square that the caller will squash the photo to: a JPEG may then be decoded at
    a fraction of its size, no side less than twice `at_least`, which is several times faster.
    """
    file_path = Path(path)
    try:
        status = file_path.stat()
        if not stat.S_ISREG(status.st_mode):
            # A pipe or a device could block forever or never end.
            raise UnreadablePhoto(path, "it is not a regular file")
        with file_path.open("rb") as file:
            return _decode(file, status.st_size, path, at_least, limit_megapixels)
    except FileNotFoundError:
        raise UnreadablePhoto(path, "there is no such file") from None
    except OSError as error:
        raise UnreadablePhoto(path, error.strerror or str(error)) from None
    except ValueError as error:
        if isinstance(error, UnreadablePhoto):
            raise
        raise UnreadablePhoto(path, f"the path is not valid ({error})") from None


def decode_photo(
    data: bytes,
    *,
    name: str = "upload",
    at_least: int | None = None,
    limit_megapixels: float = LIMIT_MEGAPIXELS,
) -> Image.Image:
    """Decode a photo that is already in memory; `name` stands for it in messages. See `read_photo`."""
    return _decode(io.BytesIO(data), len(data), name, at_least, limit_megapixels)


def _decode(file: BinaryIO, size: int, path: Path | str, at_least: int | None, limit_megapixels: float) -> Image.Image:
    limit = limit_megapixels * _MEGA
    if size == 0:
        raise UnreadablePhoto(path, "the file is empty")
    if size > limit * _BYTES_A_PIXEL + _SPARE_BYTES:
        raise UnreadablePhoto(
            path,
            f"the file is {size / _MEGA:.0f} MB, more than a photo of {limit_megapixels:g} megapixels needs "
            "(--limit-megapixels raises the limit)",
        )
    kind = sniff(file.read(SNIFFED_BYTES))
    file.seek(0)
    if kind is None:
        raise UnreadablePhoto(path, f"its content is not in a format that is read here ({READABLE})")
    try:
        with _quiet():
            return _decode_kind(kind, file, path, at_least, limit_megapixels)
    except UnreadablePhoto:
        raise
    except MissingDependencyError as missing:
        raise UnreadablePhoto(path, str(missing)) from None
    except MemoryError:
        raise UnreadablePhoto(path, "it needs more memory than there is") from None
    # Pillow's readers let whatever a hostile file provokes escape: struct.error, SyntaxError, KeyError, ...
    except Exception as error:
        detail = str(error).strip().rstrip(".") or type(error).__name__
        raise UnreadablePhoto(path, f"the {kind} data is damaged or incomplete ({detail})") from None


def _decode_kind(
    kind: str, file: BinaryIO, path: Path | str, at_least: int | None, limit_megapixels: float
) -> Image.Image:
    def check_size(width: int, height: int) -> int:
        pixels = width * height
        if pixels > limit_megapixels * _MEGA:
            raise UnreadablePhoto(
                path,
                f"{width} x {height} pixels are over the limit of {limit_megapixels:g} megapixels "
                "(--limit-megapixels raises it)",
            )
        return pixels

    if kind == "RAW" or (kind == "TIFF" and is_camera_raw(file)):
        return decode_raw(file, at_least, check_size)
    try:
        image = open_format(kind, file)
    except Image.DecompressionBombError:
        # Some readers check the size of what they are about to allocate themselves.
        raise UnreadablePhoto(
            path,
            f"it is far over the limit of {limit_megapixels:g} megapixels (--limit-megapixels raises it)",
        ) from None
    with image:
        pixels = check_size(*image.size)
        if at_least is not None:
            image.draft(None, (at_least * _DRAFT_GAP, at_least * _DRAFT_GAP))
        if pixels <= _LARGE_PIXELS:
            return _load(image)
        with _large_photos:
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
