"""Do scores agree with people? Correlation with ratings of image-caption pairs.

Two files of Flickr8k (Hodosh et al. 2013), tab-separated, without a heading:

    expert  image  caption-id  rating  rating  rating     1 (does not describe the image) to 4 (describes it)
    crowd   image  caption-id  share   yes     no         share of people who said yes, 0 to 1

A caption-id is `image#number`, its image and its place, from 0, among that image's captions.

The protocol of the literature: every expert rating is a data point of its own, the crowd's share is one; pairs whose
caption is one of the image's own are left out. Papers report tau-c for the experts and tau-b for the crowd.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from smlstm.data import Dataset, Record
from smlstm.data.files import read_lines
from smlstm.errors import InputError
from smlstm.evaluation.correlation import Correlation, correlation
from smlstm.text.tokens import tokenise

Kind = Literal["expert", "crowd"]
_COLUMNS = {"expert": "image, caption-id and three ratings", "crowd": "image, caption-id, share, yes and no"}


@dataclass(frozen=True, eq=False)
class Judgements:
    """Rated pairs: positions of images and captions, and what people said of each pair."""

    kind: Kind
    records: tuple[Record, ...]
    """The images that occur."""
    captions: tuple[str, ...]
    pairs: NDArray[np.int64]  # P, 2: image, caption
    ratings: NDArray[np.float64]  # P, R: R is 3 for experts, 1 for the crowd
    own: int
    """Pairs that were left out because the caption is the image's own."""


@dataclass(frozen=True)
class _Line:
    number: int
    image: str
    described: str
    """The image of the caption."""
    caption: int
    ratings: tuple[float, ...]


def read_judgements(path: Path, kind: Kind, dataset: Dataset) -> Judgements:
    """Read ratings and look up their images and captions, of any split, in the dataset."""
    lines = list(_read(path, kind))
    if not lines:
        raise InputError(f"{path} has no ratings")
    foreign = [line for line in lines if line.described != line.image]
    known = {record.key: record for record in dataset.records}
    _refuse_unknown(path, lines, known, dataset)
    if not foreign:
        raise InputError(f"{path}: every caption is its image's own, and those do not count")
    images = list(dict.fromkeys(line.image for line in foreign))
    captions = list(dict.fromkeys((line.described, line.caption) for line in foreign))
    texts = [known[image].captions[number] for image, number in captions]
    for (image, number), text in zip(captions, texts, strict=True):
        if not tokenise(text):
            raise InputError(f'{path}: caption "{image}#{number}" has no words: {text!r}')
    image_place, caption_place = _places(images), _places(captions)
    pairs = [(image_place[line.image], caption_place[line.described, line.caption]) for line in foreign]
    return Judgements(
        kind,
        tuple(known[image] for image in images),
        tuple(texts),
        np.array(pairs, dtype=np.int64),
        np.array([line.ratings for line in foreign]),
        len(lines) - len(foreign),
    )


def correlate(scores: NDArray[np.floating], judgements: Judgements) -> Correlation:
    """Correlation of the pairs' scores (P) with all ratings, each a data point."""
    ratings = judgements.ratings
    if scores.shape != ratings.shape[:1]:
        raise InputError(f"{len(ratings)} rated pairs need {len(ratings)} scores, not {scores.shape}")
    if not np.isfinite(scores).all():
        raise InputError("a score is not a finite number: are the weights of the model damaged?")
    points, said = np.repeat(scores, ratings.shape[1]).astype(np.float64), ratings.ravel()
    if np.ptp(points) == 0 or np.ptp(said) == 0:
        return Correlation(math.nan, math.nan, math.nan)
    return correlation(points, said)


def _read(path: Path, kind: Kind) -> Iterator[_Line]:
    for number, text in enumerate(read_lines(path), start=1):
        if not text.strip():
            continue
        where = f"{path}, line {number}"
        columns = [column.strip() for column in text.split("\t")]
        if len(columns) != 5:
            raise InputError(f"{where}: {len(columns)} columns; expected 5 between tabs: {_COLUMNS[kind]}")
        described, _, place = columns[1].rpartition("#")
        if not (described and place.isascii() and place.isdigit()):
            raise InputError(f'{where}: "{columns[1]}" is no caption-id: expected image#number')
        ratings = _expert(columns[2:], where) if kind == "expert" else _crowd(columns[2:], where)
        yield _Line(number, columns[0], described, int(place), ratings)


def _expert(columns: Sequence[str], where: str) -> tuple[float, ...]:
    for column in columns:
        if column not in ("1", "2", "3", "4"):
            raise InputError(f'{where}: "{column}" is no expert rating: expected 1, 2, 3 or 4')
    return tuple(float(column) for column in columns)


def _crowd(columns: Sequence[str], where: str) -> tuple[float, ...]:
    try:
        share = float(columns[0])
    except ValueError:
        share = math.nan
    if not 0 <= share <= 1:
        raise InputError(f'{where}: "{columns[0]}" is no share of yes: expected a number from 0 to 1')
    for column in columns[1:]:
        if not (column.isascii() and column.isdigit()):
            raise InputError(f'{where}: "{column}" is no count of answers')
    return (share,)


def _refuse_unknown(path: Path, lines: Sequence[_Line], known: dict[str, Record], dataset: Dataset) -> None:
    def unknown(line: _Line) -> str | None:
        for image in (line.image, line.described):
            if image not in known:
                return f'image "{image}"'
        count = len(known[line.described].captions)
        return None if line.caption < count else f'caption "{line.described}#{line.caption}"'

    wrong = [(line.number, what) for line in lines if (what := unknown(line)) is not None]
    if wrong:
        number, what = wrong[0]
        others = f" (and {len(wrong) - 1} more lines name what is not there)" if len(wrong) > 1 else ""
        raise InputError(
            f"{path}, line {number}: {what} is in no split of {dataset.root}{others}: "
            "ratings and data must be of the same dataset"
        )


def _places(items: Sequence[object]) -> dict[object, int]:
    return {item: place for place, item in enumerate(items)}
