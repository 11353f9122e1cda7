"""Where a map has its peak, in words that need no picture."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
EVERYWHERE = "everywhere alike"
_ROWS, _COLUMNS = ("upper", "middle", "lower"), ("left", "centre", "right")


def peak(grid: Floats) -> tuple[float, float]:
    """X and y of the strongest region's middle, as parts of the photo's sides."""
    rows, columns = grid.shape
    row, column = divmod(int(grid.argmax()), columns)
    return (column + 0.5) / columns, (row + 0.5) / rows


def is_even(grid: Floats) -> bool:
    """Whether a map prefers no place, to a twentieth."""
    return bool(grid.max() < 1.05 * grid.mean())


def place(grid: Floats) -> str:
    """Where a map is strongest: "upper left", "centre", or "everywhere alike"."""
    if is_even(grid):
        return EVERYWHERE
    x, y = peak(grid)
    row, column = _ROWS[min(int(y * 3), 2)], _COLUMNS[min(int(x * 3), 2)]
    return "centre" if (row, column) == ("middle", "centre") else f"{row} {column}"


def describe_word(word: str, grid: Floats) -> str:
    """Where a word is, as a sentence."""
    where = place(grid)
    return f"“{word}”: {where}." if where == EVERYWHERE else f"“{word}”: at the {where} of the photo."
