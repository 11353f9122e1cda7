"""Blocks of a picture: text, words with bars, a legend, a small plot; stacked down or across."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from smlstm.explain.maps import legend

INK, PALE, PAPER, ACCENT, RULE = "#1a1a1a", "#595959", "#ffffff", "#31688e", "#c8c8c8"
TEXT, SMALL, TITLE = 17, 15, 22
LEAST_SPAN = 0.1
"""What the whole height of a score's line is worth at least."""
TIMES = "\N{MULTIPLICATION SIGN}"


@cache
def font(size: int, bold: bool = False) -> ImageFont.FreeTypeFont:
    """DejaVu Sans, which comes with matplotlib: the same on every machine, and it has the paper's letters."""
    import matplotlib as mpl  # noqa: PLC0415 - slow to import

    name = "DejaVuSans-Bold.ttf" if bold else "DejaVuSans.ttf"
    return ImageFont.truetype(str(Path(mpl.get_data_path(), "fonts", "ttf", name)), size)


def blank(width: int, height: int) -> Image.Image:
    """Empty paper."""
    return Image.new("RGB", (width, height), PAPER)


def down(blocks: Sequence[Image.Image], gap: int = 8) -> Image.Image:
    """Blocks below each other."""
    page = blank(max(block.width for block in blocks), sum(block.height + gap for block in blocks) - gap)
    y = 0
    for block in blocks:
        page.paste(block, (0, y))
        y += block.height + gap
    return page


def across(blocks: Sequence[Image.Image], gap: int = 20) -> Image.Image:
    """Blocks beside each other."""
    page = blank(sum(block.width + gap for block in blocks) - gap, max(block.height for block in blocks))
    x = 0
    for block in blocks:
        page.paste(block, (x, 0))
        x += block.width + gap
    return page


def framed(block: Image.Image, margin: int = 24) -> Image.Image:
    """A block with a margin around."""
    page = blank(block.width + 2 * margin, block.height + 2 * margin)
    page.paste(block, (margin, margin))
    return page


def padded(block: Image.Image, height: int) -> Image.Image:
    """A block with room below, so that what follows it lies on one line with what follows others."""
    page = blank(block.width, height)
    page.paste(block, (0, 0))
    return page


def text(words: str, width: int, size: int = TEXT, *, bold: bool = False, colour: str = INK) -> Image.Image:
    """Text, wrapped to a width; a word too long for a line is broken."""
    face = font(size, bold)
    lines = [""]
    for word in words.split():
        longer = f"{lines[-1]} {word}".strip()
        if face.getlength(longer) <= width:
            lines[-1] = longer
            continue
        lines += [""] if lines[-1] else []
        for letter in word:
            if face.getlength(lines[-1] + letter) > width:
                lines.append("")
            lines[-1] += letter
    height = round(size * 1.35)
    page = blank(width, height * len(lines))
    draw = ImageDraw.Draw(page)
    for number, line in enumerate(lines):
        draw.text((0, number * height), line, font=face, fill=colour)
    return page


def weighted_words(
    words: Sequence[str],
    shares: NDArray[np.float32],
    phrase: range,
    quiet: Sequence[bool],
    width: int,
    *,
    size: int = TEXT,
) -> Image.Image:
    """A sentence whose words stand on bars as high as their saliency; a phrase is bold and framed, quiet words pale."""
    bar, pad, gap = 16, 3, 5
    line = round(size * 1.35) + bar + 8
    places: list[tuple[int, int]] = []
    x = y = 0
    widths = [
        min(width, round(font(size, place in phrase).getlength(word)) + 2 * pad) for place, word in enumerate(words)
    ]
    for wide in widths:
        if x and x + wide > width:
            x, y = 0, y + line
        places.append((x, y))
        x += wide + gap
    page = blank(width, y + line)
    draw = ImageDraw.Draw(page)
    strongest = max(float(shares.max()), 1e-12)
    for place, (word, (left, above), wide) in enumerate(zip(words, places, widths, strict=True)):
        base = above + line - 4
        draw.text((left + pad, above), word, font=font(size, place in phrase), fill=PALE if quiet[place] else INK)
        draw.line((left, base, left + wide, base), fill=RULE, width=1)
        height = round(bar * float(shares[place]) / strongest)
        if height:
            draw.rectangle((left, base - height, left + wide, base), fill=RULE if quiet[place] else ACCENT)
    for above in sorted({places[place][1] for place in phrase}):  # a phrase that breaks over lines has a frame on each
        ends = [(places[place][0], places[place][0] + widths[place]) for place in phrase if places[place][1] == above]
        draw.rectangle((ends[0][0] - 1, above - 1, ends[-1][1] + 1, above + line - 3), outline=INK, width=2)
    return page


def at_limit(limit: float, capped: bool = False) -> str:
    """What the last colour stands for."""
    return f"{limit:.1f}{TIMES}" + (" or more" if capped else "")


def scale(width: int, limit: float, capped: bool = False) -> Image.Image:
    """The legend of the colours, in even shares; capped: there are values beyond it."""
    page = blank(width, 46)
    page.paste(legend((width, 18)), (0, 0))
    draw = ImageDraw.Draw(page)
    face = font(SMALL)
    last = at_limit(limit, capped)
    draw.text((0, 23), "0", font=face, fill=INK)
    draw.text((width, 23), last, font=face, fill=INK, anchor="ra")
    one, free = width / limit, width - face.getlength(last) - 12
    draw.line((one, 0, one, 22), fill=PAPER, width=2)
    for label in (f"1{TIMES} = even", f"1{TIMES}"):
        half = face.getlength(label) / 2
        if one - half > 16 and one + half < free:
            draw.text((one, 23), label, font=face, fill=INK, anchor="ma")
            break
    return page


@dataclass(frozen=True)
class ScoreLine:
    """A score's way through the steps, ready to be drawn."""

    heights: list[float]
    """0 at the bottom, 1 at the top."""
    labels: list[str]


def score_line(scores: Sequence[float]) -> ScoreLine:
    """Where the points of a score lie; what hardly changes looks as if it hardly changed."""
    low, high = min(scores), max(scores)
    span = max(high - low, LEAST_SPAN)
    bottom = (low + high - span) / 2
    digits = 2 if high - low >= LEAST_SPAN else 3
    return ScoreLine([(score - bottom) / span for score in scores], [f"{score:.{digits}f}" for score in scores])


def progress(scores: NDArray[np.float32], width: int, height: int = 120) -> Image.Image:
    """The score after each step, as a line with numbers where there is room for them."""
    page = blank(width, height)
    draw = ImageDraw.Draw(page)
    line = score_line([float(score) for score in scores])
    left, right, above, below = 28, width - 28, 26, height - 28
    across_by = (right - left) / max(len(scores) - 1, 1)
    points = [
        (left + number * across_by, below - height * (below - above)) for number, height in enumerate(line.heights)
    ]
    draw.line((0, below + 6, width, below + 6), fill=RULE)
    if len(points) > 1:
        draw.line(points, fill=ACCENT, width=3)
    for number, ((x, y), label) in enumerate(zip(points, line.labels, strict=True)):
        draw.ellipse((x - 5, y - 5, x + 5, y + 5), fill=ACCENT)
        if across_by >= 52 or number in (0, len(points) - 1):
            draw.text((x, y - 9), label, font=font(SMALL), fill=INK, anchor="mb")
            draw.text((x, below + 9), str(number + 1), font=font(SMALL), fill=PALE, anchor="ma")
    return page
