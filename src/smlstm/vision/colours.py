"""Every pixel layout to 8-bit RGB.

Alpha is laid over white, as a page or a viewer would show it. Sixteen bits are scaled to eight, not clipped.
Integers beyond 16 bits and floats outside 0..1 have no agreed white, so their own minimum and maximum become
black and white. CMYK is converted without a colour profile.
"""

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageCms
from PIL.TiffImagePlugin import TiffImageFile

_BITS_PER_SAMPLE = 258
# Scaled in strips, so that a large 16-bit photo never exists a second time in wider numbers.
_STRIP_ROWS = 256


def to_rgb(image: Image.Image) -> Image.Image:
    """Convert a decoded image of any mode to RGB."""
    mode = image.mode
    if mode == "RGB" and "transparency" not in image.info:
        return image
    if mode.startswith("I") or mode == "F":
        return _deep_to_rgb(image)
    if mode == "LAB":
        return _lab_to_rgb(image)
    if image.has_transparency_data:
        return _over_white(image.convert("RGBA"))
    return image.convert("RGB")


def _over_white(image: Image.Image) -> Image.Image:
    paper = Image.new("RGB", image.size, (255, 255, 255))
    paper.paste(image, mask=image.getchannel("A"))
    return paper


def _deep_to_rgb(image: Image.Image) -> Image.Image:
    samples = np.asarray(image)
    with np.errstate(all="ignore"):
        black, white = _range_of(image, samples)
    grey = np.empty(samples.shape, np.uint8)
    scale = 255.0 / (white - black) if white > black else 0.0
    with np.errstate(all="ignore"):  # what is not a number becomes black
        for top in range(0, len(samples), _STRIP_ROWS):
            strip = samples[top : top + _STRIP_ROWS].astype(np.float64)
            scaled = np.nan_to_num((strip - black) * scale, nan=0.0)
            grey[top : top + _STRIP_ROWS] = np.rint(np.clip(scaled, 0.0, 255.0))
    transparent = image.info.get("transparency")
    if isinstance(transparent, int):
        grey[samples == transparent] = 255
    return Image.fromarray(grey).convert("RGB")


def _range_of(image: Image.Image, samples: NDArray[np.generic]) -> tuple[float, float]:
    """Find which sample values mean black and white."""
    if image.mode.startswith("I;16"):
        bits = image.tag_v2.get(_BITS_PER_SAMPLE, (16,))[0] if isinstance(image, TiffImageFile) else 16
        return 0.0, float(2 ** min(int(bits), 16) - 1)
    finite = samples[np.isfinite(samples)] if image.mode == "F" else samples
    if finite.size == 0:
        return 0.0, 0.0
    low, high = float(finite.min()), float(finite.max())
    usual_white = 1.0 if image.mode == "F" else 65535.0
    return (0.0, usual_white) if low >= 0.0 and high <= usual_white else (low, high)


def _lab_to_rgb(image: Image.Image) -> Image.Image:
    lab, srgb = ImageCms.createProfile("LAB"), ImageCms.createProfile("sRGB")
    converted = ImageCms.profileToProfile(image, lab, srgb, outputMode="RGB")
    assert converted is not None
    return converted
