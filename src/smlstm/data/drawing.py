"""Drawing of composed scenes: shapes with soft edges on backgrounds that are never quite plain."""

import math
import random

import numpy as np
from PIL import Image, ImageDraw

COLOURS = {
    "red": (214, 32, 36),
    "green": (36, 150, 54),
    "blue": (36, 72, 214),
    "yellow": (244, 218, 36),
    "orange": (246, 132, 20),
    "purple": (136, 44, 168),
    "pink": (250, 132, 190),
    "black": (16, 16, 18),
}
SHAPES = ("circle", "square", "triangle", "star", "cross", "ring", "diamond", "heart")
BACKGROUNDS = ("grey", "sand", "stripes", "checks")
_FINE = 4  # shapes are drawn this much larger, then shrunk, for soft edges


def draw_background(kind: str, size: int, rng: np.random.Generator) -> Image.Image:
    """Paint a muted ground with texture and noise."""
    base = {"grey": (128, 130, 132), "sand": (190, 176, 148)}.get(kind, (158, 160, 164))
    canvas = np.tile(np.array(base, dtype=np.float64), (size, size, 1))
    y, x = np.mgrid[0:size, 0:size] / size
    if kind == "stripes":
        canvas += 14 * np.where((x + y) * 9 % 1 < 0.5, 1, -1)[..., None]
    elif kind == "checks":
        canvas += 12 * np.where((x * 8 % 1 < 0.5) ^ (y * 8 % 1 < 0.5), 1, -1)[..., None]
    slope = rng.uniform(-14, 14, 2)
    canvas += (slope[0] * (x - 0.5) + slope[1] * (y - 0.5))[..., None]
    canvas += rng.uniform(-10, 10) + rng.normal(0, 7, (size, size, 1))
    return Image.fromarray(np.clip(np.rint(canvas), 0, 255).astype(np.uint8))


def draw_shape(
    picture: Image.Image, shape: str, colour: str, box: tuple[int, int, int, int], rng: random.Random
) -> None:
    """Paint one shape that fills its box, in a colour that varies a little."""
    side = (box[2] - box[0]) * _FINE
    mask = Image.new("L", (side, side), 0)
    draw = ImageDraw.Draw(mask)
    if shape == "circle":
        draw.ellipse((0, 0, side - 1, side - 1), fill=255)
    elif shape == "ring":
        draw.ellipse((0, 0, side - 1, side - 1), fill=255)
        inner = side * 0.27
        draw.ellipse((inner, inner, side - 1 - inner, side - 1 - inner), fill=0)
    elif shape == "heart":
        lobe = side * 0.54
        draw.ellipse((0, 0, lobe, lobe), fill=255)
        draw.ellipse((side - 1 - lobe, 0, side - 1, lobe), fill=255)
        draw.polygon(_scaled([(0.03, 0.38), (0.97, 0.38), (0.5, 1.0)], side), fill=255)
    else:
        draw.polygon(_scaled(_OUTLINES[shape], side), fill=255)
    soft = mask.resize((side // _FINE, side // _FINE), Image.Resampling.BOX)
    paint = tuple(min(255, max(0, channel + rng.randint(-12, 12))) for channel in COLOURS[colour])
    picture.paste(paint, box, soft)


def _scaled(outline: list[tuple[float, float]], side: int) -> list[tuple[float, float]]:
    return [(x * (side - 1), y * (side - 1)) for x, y in outline]


def _star() -> list[tuple[float, float]]:
    points = []
    for tip in range(10):
        angle, radius = math.pi * tip / 5, 1.0 if tip % 2 == 0 else 0.42
        points.append((round(0.5 + 0.52 * radius * math.sin(angle), 6), round(0.5 - 0.5 * radius * math.cos(angle), 6)))
    return points


_OUTLINES: dict[str, list[tuple[float, float]]] = {
    "square": [(0, 0), (1, 0), (1, 1), (0, 1)],
    "triangle": [(0.5, 0), (1, 1), (0, 1)],
    "diamond": [(0.5, 0), (1, 0.5), (0.5, 1), (0, 0.5)],
    "star": _star(),
    "cross": [
        (x / 3, y / 3)
        for x, y in [(1, 0), (2, 0), (2, 1), (3, 1), (3, 2), (2, 2), (2, 3), (1, 3), (1, 2), (0, 2), (0, 1), (1, 1)]
    ],
}
