"""Views of a photo to train on: as it is, as in a mirror, or as someone else might have it.

An augmented view is a part of the photo, perhaps shrunk, saved as a JPEG again and mirrored, all drawn from the view's
seed and the photo's key: the same command gives the same pixels, and which part is seen can be told from them alone.
"""

import io
import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from smlstm.files import fingerprint

AREAS, ASPECTS = (0.5, 1.0), (0.8, 1.25)
"""Of the part that is seen, relative to the photo's own."""
SHRUNK, LONGER_SIDES = 0.6, (150, 500)
SAVED_AGAIN, QUALITIES = 0.6, (30, 92)
_TEXT = re.compile(r"; mirrored$|; augmented (\d+)$")


@dataclass(frozen=True)
class Part:
    """What is seen of a photo: edges as shares of its width and height, and whether left and right are swapped."""

    left: float = 0.0
    top: float = 0.0
    right: float = 1.0
    bottom: float = 1.0
    mirrored: bool = False

    def places(self, side: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Where the middles of a grid's columns and rows lie in the whole photo, as shares of it."""
        middles = (np.arange(side) + 0.5) / side
        across = middles[::-1] if self.mirrored else middles
        return self.left + across * (self.right - self.left), self.top + middles * (self.bottom - self.top)


@dataclass(frozen=True)
class View:
    """How photos are seen: as they are, unless told otherwise."""

    mirrored: bool = False
    augmented: int | None = None
    """The seed of parts, sizes, qualities and mirrors."""

    @classmethod
    def split(cls, preprocessing: str) -> tuple[str, "View"]:
        """Read the view at the end of a description of preprocessing, and what stands before it."""
        found = _TEXT.search(preprocessing)
        if found is None:
            return preprocessing, cls()
        seed = found.group(1)
        return preprocessing[: found.start()], cls(mirrored=seed is None, augmented=None if seed is None else int(seed))

    @property
    def text(self) -> str:
        """What a description of preprocessing says of it, at its end."""
        if self.augmented is not None:
            return f"; augmented {self.augmented}"
        return "; mirrored" if self.mirrored else ""

    def part(self, key: str) -> Part:
        """What is seen of the photo with this key."""
        if self.augmented is None:
            return Part(mirrored=self.mirrored)
        area, aspect, across, down, mirror = self._draws(key)[:5]
        whole = AREAS[0] + area * (AREAS[1] - AREAS[0])
        shape = ASPECTS[0] * (ASPECTS[1] / ASPECTS[0]) ** aspect
        width, height = min(1.0, (whole * shape) ** 0.5), min(1.0, (whole / shape) ** 0.5)
        left, top = float(across * (1 - width)), float(down * (1 - height))
        return Part(left, top, left + float(width), top + float(height), bool(mirror < 0.5))

    def show(self, photo: Image.Image, key: str) -> Image.Image:
        """An RGB photo as it is seen, but for the mirror, which is cheaper and more exact on squashed pixels."""
        return photo if self.augmented is None else self._as_others_have_it(_cut(photo, self.part(key)), key)

    def _as_others_have_it(self, photo: Image.Image, key: str) -> Image.Image:
        shrink, size, save, quality = self._draws(key)[5:]
        longer = round(LONGER_SIDES[0] + size * (LONGER_SIDES[1] - LONGER_SIDES[0]))
        if shrink < SHRUNK and longer < max(photo.size):
            scale = longer / max(photo.size)
            width, height = (max(1, round(side * scale)) for side in photo.size)
            photo = photo.resize((width, height), Image.Resampling.BICUBIC, reducing_gap=2.0)
        if save < SAVED_AGAIN:
            file = io.BytesIO()
            photo.save(file, "JPEG", quality=round(QUALITIES[0] + quality * (QUALITIES[1] - QUALITIES[0])))
            photo = Image.open(file, formats=("JPEG",)).convert("RGB")
        return photo

    def _draws(self, key: str) -> NDArray[np.float64]:
        digest = bytes.fromhex(fingerprint([f"{self.augmented}/{key}".encode("utf-8", "surrogateescape")]))
        return np.random.default_rng(int.from_bytes(digest[:8], "little")).random(9)


AS_IT_IS = View()


def _cut(photo: Image.Image, part: Part) -> Image.Image:
    width, height = photo.size
    left, top = int(part.left * width), int(part.top * height)
    return photo.crop((left, top, max(left + 1, round(part.right * width)), max(top + 1, round(part.bottom * height))))
