"""Flickr30k Entities (Plummer et al., ICCV 2015): which words of a caption name which boxes of its photo.

The published layout, anywhere:

    Sentences/36979.txt      captions, a line each: [/EN#1/people Two young guys] with [/EN#2/bodyparts shaggy hair] .
    Annotations/36979.xml    the photo's size in pixels, and boxes, each of one entity or of several

Files are named by the number with which a photo's name begins: Flickr8k's names have more behind it. A phrase without
a box names what is not to be seen, or the scene as a whole.
"""

import re
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
from numpy.typing import NDArray

from smlstm.data.files import read_lines
from smlstm.errors import InputError
from smlstm.text.phrases import find_marked

_EDGES = ("xmin", "ymin", "xmax", "ymax")

Box = tuple[int, int, int, int]
"""Left, top, right and bottom in pixels."""


@dataclass(frozen=True)
class Phrase:
    """Some words of a caption that name something."""

    text: str
    kinds: tuple[str, ...]
    """people, clothing, bodyparts, animals, vehicles, instruments, scene, other; notvisual."""
    first: int
    last: int
    """Its words are those of the caption from `first` to before `last`."""
    boxes: tuple[Box, ...]


@dataclass(frozen=True)
class PhrasedCaption:
    """A caption and its phrases, from left to right."""

    text: str
    phrases: tuple[Phrase, ...]


@dataclass(frozen=True)
class PhrasedPhoto:
    """A photo's captions with what they name, and where that is."""

    size: tuple[int, int]
    """Width and height in pixels of the photo that boxes are of."""
    captions: tuple[PhrasedCaption, ...]

    def regions_of(self, phrase: Phrase, side: int) -> NDArray[np.bool_]:
        """Which regions of a grid have their middle in one of the phrase's boxes; side * side."""
        on = np.zeros((side, side), np.bool_)
        across, down = ((np.arange(side) + 0.5) / side * length for length in self.size)
        for left, top, right, bottom in phrase.boxes:
            on |= np.outer((top <= down) & (down <= bottom), (left <= across) & (across <= right))
        return on.reshape(-1)


class Entities:
    """The phrases of many photos, read when they are asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        missing = [name for name in ("Annotations", "Sentences") if not (folder / name).is_dir()]
        if missing:
            raise InputError(
                f"{folder} has no folder {missing[0]}: phrases are read in the layout of Flickr30k Entities, "
                "Annotations/*.xml and Sentences/*.txt"
            )

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and self._file("Sentences", key, "txt").is_file()

    def read(self, key: str) -> PhrasedPhoto:
        """The phrases of one photo, by its name."""
        size, boxes = _read_boxes(self._file("Annotations", key, "xml"))
        lines = read_lines(self._file("Sentences", key, "txt"))
        return PhrasedPhoto(size, tuple(_read_caption(line, boxes) for line in lines if line.strip()))

    def _file(self, kind: str, key: str, ending: str) -> Path:
        number = re.split(r"[_.]", Path(key).name, maxsplit=1)[0]
        return self.folder / kind / f"{number}.{ending}"


def _read_caption(line: str, boxes: dict[str, list[Box]]) -> PhrasedCaption:
    plain, marked = find_marked(line)
    phrases = (
        Phrase(each.text, each.kinds, each.span.first, each.span.last, tuple(boxes.get(each.entity, ())))
        for each in marked
    )
    return PhrasedCaption(plain, tuple(phrases))


def _read_boxes(file: Path) -> tuple[tuple[int, int], dict[str, list[Box]]]:
    try:
        root = ElementTree.parse(file).getroot()
        width, height = (int(_text(root, f"size/{name}")) for name in ("width", "height"))
        boxes: dict[str, list[Box]] = defaultdict(list)
        for thing in root.findall("object"):
            edges = thing.find("bndbox")
            if edges is not None:
                left, top, right, bottom = (int(_text(edges, edge)) for edge in _EDGES)
                for name in thing.findall("name"):
                    boxes[name.text or ""].append((left, top, right, bottom))
    except FileNotFoundError:
        raise InputError(f"{file} is missing: it has the boxes of a photo whose phrases are there") from None
    except (ElementTree.ParseError, ValueError) as error:
        raise InputError(f"{file} is not a file of boxes as Flickr30k Entities has them: {error}") from None
    if width < 1 or height < 1:
        raise InputError(f"{file} gives its photo's size as {width} x {height}")
    return (width, height), boxes


def _text(element: ElementTree.Element, path: str) -> str:
    text = element.findtext(path)
    if text is None:
        raise ValueError(f"there is no {path}")
    return text
