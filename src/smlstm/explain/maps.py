"""Saliency maps as pixels: resized to the photo, multiplied with it (the paper), or laid over it in colours.

A backbone sees the photo squashed to a square, so a grid of regions stretched to the photo's own sides lies where
the regions do. Colours are viridis: its lightness only rises, which people see alike with any kind of colour vision,
and which survives a grey print. An outline around the half of the saliency needs no colours at all.
"""

from functools import cache

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from smlstm.explain.places import is_even

Floats = NDArray[np.float32]
Bytes = NDArray[np.uint8]

COLOURS = "viridis"
_STRENGTH = 0.55
"""Part of the colour in an overlay; the rest is the photo in grey."""


def resize_map(grid: Floats, size: tuple[int, int]) -> Floats:
    """Stretch a grid over a picture of (width, height), bicubic; overshoot below 0 is cut. height x width."""
    picture = Image.fromarray(np.ascontiguousarray(grid, dtype=np.float32))
    stretched = np.asarray(picture.resize(size, Image.Resampling.BICUBIC), dtype=np.float32)
    return np.maximum(stretched, 0.0)


def multiply(photo: Image.Image, grid: Floats) -> Image.Image:
    """The paper's picture: the photo times its resized map, which is scaled to 1 at its peak."""
    saliency = resize_map(grid, photo.size)
    pixels = np.asarray(photo.convert("RGB"), dtype=np.float32)
    shown = pixels * (saliency / max(float(saliency.max()), 1e-12))[..., None]
    return Image.fromarray(np.rint(shown).astype(np.uint8))


def overlay(photo: Image.Image, grid: Floats, limit: float) -> Image.Image:
    """Lay a map (in even shares) over the photo: colours from 0 to `limit`, an outline around half of the saliency."""
    saliency = resize_map(grid, photo.size)
    grey = np.asarray(photo.convert("L"), dtype=np.float32)[..., None]
    mixed = (1 - _STRENGTH) * grey + _STRENGTH * colours(saliency / max(limit, 1e-12))
    pixels = np.rint(mixed).astype(np.uint8)
    if not is_even(grid):
        _draw_outline(pixels, saliency)
    return Image.fromarray(pixels)


def colour_map(grid: Floats, size: tuple[int, int], limit: float) -> Image.Image:
    """A map (in even shares) by itself, in the colours of `overlay`."""
    return Image.fromarray(np.rint(colours(resize_map(grid, size) / max(limit, 1e-12))).astype(np.uint8))


def colours(values: Floats) -> Floats:
    """Colours of values from 0 to 1; shape x 3, 0 to 255."""
    table = _table()
    return table[np.clip(np.rint(values * (len(table) - 1)), 0, len(table) - 1).astype(np.int64)]


@cache
def _table() -> Floats:
    from matplotlib import colormaps  # noqa: PLC0415 - slow to import, and arrays need none of it

    return np.asarray(colormaps[COLOURS](np.linspace(0, 1, 256))[:, :3] * 255, dtype=np.float32)


def legend(size: tuple[int, int]) -> Image.Image:
    """The colours from 0 (left) to the limit (right)."""
    ramp = np.tile(np.linspace(0, 1, size[0], dtype=np.float32), (size[1], 1))
    return Image.fromarray(np.rint(colours(ramp)).astype(np.uint8))


def half_area(saliency: Floats) -> NDArray[np.bool_]:
    """The smallest area that holds half of the saliency."""
    order = np.sort(saliency, axis=None)[::-1]
    held = np.cumsum(order, dtype=np.float64)
    threshold = order[min(int(np.searchsorted(held, held[-1] / 2)), order.size - 1)]
    area: NDArray[np.bool_] = saliency >= threshold
    return area


def _draw_outline(pixels: Bytes, saliency: Floats) -> None:
    """White within black, so that it shows on any ground."""
    area = half_area(saliency)
    width = max(1, round(max(area.shape) / 200))
    inner, outer = _shrunk(area, width), ~_shrunk(~area, width)
    pixels[outer & ~area] = 0
    pixels[area & ~inner] = 255


def _shrunk(area: NDArray[np.bool_], by: int) -> NDArray[np.bool_]:
    """An area without its outermost pixels; the picture's border is no edge."""
    for _ in range(by):
        padded = np.pad(area, 1, mode="edge")
        area = padded[1:-1, 1:-1] & padded[:-2, 1:-1] & padded[2:, 1:-1] & padded[1:-1, :-2] & padded[1:-1, 2:]
    return area
