"""A photo at the size at which it is shown beside what a model saw in it."""

from pathlib import Path

from PIL import Image

from smlstm.vision.decode import read_photo

SHOWN_SIDE = 640
"""Photos are shown with their longer side at most this many pixels."""


def shown(path: str | Path, side: int = SHOWN_SIDE) -> Image.Image:
    """Read a photo at the size at which it is shown, in its own proportions."""
    photo = read_photo(path, at_least=side)
    photo.thumbnail((side, side), Image.Resampling.LANCZOS)
    return photo
