"""Cameras' raw files, through rawpy (the extra `raw`)."""

import io
from collections.abc import Callable
from importlib import import_module
from typing import Any, BinaryIO

from PIL import Image

from smlstm.errors import MissingDependencyError
from smlstm.vision.colours import to_rgb

_UPRIGHT = {3: Image.Transpose.ROTATE_180, 5: Image.Transpose.ROTATE_90, 6: Image.Transpose.ROTATE_270}


def decode_raw(file: BinaryIO, at_least: int | None, check_size: Callable[[int, int], None]) -> Image.Image:
    """Decode a raw photo: its embedded preview where that is large enough, else the developed sensor data.

    `check_size` refuses a photo over the limit, and is asked before anything is developed.
    """
    try:
        rawpy: Any = import_module("rawpy")
    except ImportError:
        raise MissingDependencyError("camera RAW photos need an extra: pip install 'smlstm[raw]'") from None
    with rawpy.imread(file) as raw:
        check_size(raw.sizes.width, raw.sizes.height)
        if at_least is not None:
            preview = _preview(rawpy, raw, check_size)
            if preview is not None and min(preview.size) >= at_least:
                return preview
        # Half size is exact for a sensor that sees one colour a pixel, and four times faster.
        enough = at_least is not None and min(raw.sizes.width, raw.sizes.height) >= 2 * at_least
        return Image.fromarray(raw.postprocess(use_camera_wb=True, half_size=enough))


def _preview(rawpy: Any, raw: Any, check_size: Callable[[int, int], None]) -> Image.Image | None:
    try:
        thumb = raw.extract_thumb()
    except rawpy.LibRawError:
        return None
    if thumb.format != rawpy.ThumbFormat.JPEG:
        return None
    with Image.open(io.BytesIO(thumb.data), formats=["JPEG"]) as image:
        check_size(*image.size)
        image.load()
        turn = _UPRIGHT.get(raw.sizes.flip)
        upright = to_rgb(image)
        return upright.transpose(turn) if turn is not None else upright.copy()
