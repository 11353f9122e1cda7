"""The reader of each image format, and telling a camera's raw file from a plain TIFF."""

from collections.abc import Callable
from importlib import import_module
from typing import BinaryIO

from PIL import (
    AvifImagePlugin,
    BmpImagePlugin,
    GifImagePlugin,
    JpegImagePlugin,
    PngImagePlugin,
    TiffImagePlugin,
    WebPImagePlugin,
)
from PIL.ImageFile import ImageFile

from smlstm.errors import MissingDependencyError

_DNG_VERSION = 50706
_SUBFILE_TYPE, _REDUCED = 254, 1
_PHOTOMETRIC, _SENSOR_DATA = 262, (32803, 34892)


def open_format(name: str, file: BinaryIO) -> ImageFile:
    """Read a header with the one reader of that format.

    Not `PIL.Image.open`: that would try every format Pillow knows, would warn by a process-wide limit, and
    would need a process-wide registration for HEIC. The file has no name here, so Pillow does not map it into
    memory, where a file cut short by another program would end this process.
    """
    return _READERS[name](file)


def _open_heic(file: BinaryIO) -> ImageFile:
    try:
        plugin = import_module("pillow_heif.as_plugin")
    except ImportError:
        raise MissingDependencyError("HEIC photos need an extra: pip install 'smlstm[heic]'") from None
    image: ImageFile = plugin.HeifImageFile(file)
    return image


_READERS: dict[str, Callable[[BinaryIO], ImageFile]] = {
    "JPEG": JpegImagePlugin.jpeg_factory,
    "PNG": PngImagePlugin.PngImageFile,
    "WEBP": WebPImagePlugin.WebPImageFile,
    "AVIF": AvifImagePlugin.AvifImageFile,
    "GIF": GifImagePlugin.GifImageFile,
    "BMP": BmpImagePlugin.BmpImageFile,
    "TIFF": TiffImagePlugin.TiffImageFile,
    "HEIC": _open_heic,
}


def is_camera_raw(file: BinaryIO) -> bool:
    """Tell whether a TIFF is a camera's raw file, of which the TIFF reader sees the thumbnail only, or nothing."""
    try:
        head = file.read(8)
        if head[2:4] in (b"+\x00", b"\x00+"):  # the 64-bit kind has a longer header
            head += file.read(8)
        tags = TiffImagePlugin.ImageFileDirectory_v2(head)
        file.seek(tags.next)
        tags.load(file)
        return (
            _DNG_VERSION in tags
            or bool(int(tags.get(_SUBFILE_TYPE, 0)) & _REDUCED)
            or tags.get(_PHOTOMETRIC) in _SENSOR_DATA
        )
    except Exception:  # as hostile as any other file; the TIFF reader will say what is wrong with it
        return False
    finally:
        file.seek(0)
