"""Similarity matrices on disk, each with a card that says of what it is, and their sums.

`NAME.npy` holds the scores (images x captions, float32), `NAME.json` the images' keys, the captions, which image each
describes, the model and the features. Matrices are added only if their images and captions are the same.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smlstm.data import FeatureSpec
from smlstm.data.files import read_json
from smlstm.errors import InputError
from smlstm.evaluation.gallery import Gallery
from smlstm.evaluation.models import Candidate, distinct_names
from smlstm.files import write_whole

_FORMAT = "smlstm-similarities"
_VERSION = 1
_ROWS = 256

Scores = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class SavedMatrix:
    """A matrix that was saved earlier; its scores are mapped, not read."""

    name: str
    scores: Scores
    gallery: Gallery


def reserve(folder: Path, candidate: Candidate, gallery: Gallery, spec: FeatureSpec, precision: str) -> Path:
    """Write a candidate's card and name its matrix; what another job left under that name is refused.

    A matrix that this very job finished before is kept, so that a killed evaluation goes on.
    """
    path = folder / f"{candidate.name.replace('/', '--')}.npy"
    card = {
        "format": _FORMAT,
        "version": _VERSION,
        "model": candidate.name,
        "model_sha256": candidate.fingerprint,
        "precision": precision,
        "features": spec.to_dict(),
        "data": gallery.data,
        "split": gallery.split,
        "fingerprint": gallery.fingerprint,
        "images": list(gallery.keys),
        "captions": list(gallery.captions),
        "image_of": gallery.image_of.tolist(),
    }
    file = path.with_suffix(".json")
    begun = path.exists() or path.with_name(path.name + ".part").exists()
    if not begun and file.exists() and not _is_card(file):
        raise InputError(f"{file} was not written by `smlstm evaluate --save`: save into another folder")
    if begun and not (file.exists() and read_json(file) == card):
        raise InputError(
            f"{path} is of another model, other images or captions, or has no {file.name}: "
            "delete it, or save into another folder"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(file, json.dumps(card))
    except OSError as error:
        raise InputError(f"{folder} cannot be written: {error.strerror}") from None
    return path


def _is_card(file: Path) -> bool:
    try:
        content = read_json(file)
    except InputError:
        return False
    return isinstance(content, dict) and content.get("format") == _FORMAT


def load_matrices(paths: Sequence[Path]) -> list[SavedMatrix]:
    """Open saved matrices; those of different images or captions are refused."""
    if not paths:
        raise InputError("no matrix is given: name the .npy files that `smlstm evaluate --save` wrote")
    found = [_load(path) for path in paths]
    for path, matrix in zip(paths[1:], found[1:], strict=True):
        if matrix.gallery.fingerprint != found[0].gallery.fingerprint:
            raise InputError(f"{path} is not of the same {_difference(found[0].gallery, matrix.gallery)} as {paths[0]}")
    names = [matrix.name for matrix in found]
    if len(set(names)) < len(names):
        names = distinct_names([path.with_suffix("") for path in paths])
    if len(set(names)) < len(names):
        raise InputError("a matrix is given twice: a sum needs different models")
    return [SavedMatrix(name, matrix.scores, matrix.gallery) for name, matrix in zip(names, found, strict=True)]


def _difference(one: Gallery, other: Gallery) -> str:
    return "images" if one.keys != other.keys else "captions"


def _load(path: Path) -> SavedMatrix:
    if path.suffix != ".npy" or not path.is_file():
        raise InputError(f"{path} is no saved matrix: name a .npy file that `smlstm evaluate --save` wrote")
    card = _read_card(path.with_suffix(".json"))
    gallery = Gallery(
        card["data"],
        card["split"],
        tuple(card["images"]),
        tuple(card["captions"]),
        np.array(card["image_of"], dtype=np.int64),
    )
    if gallery.fingerprint != card["fingerprint"]:
        raise InputError(
            f"{path.with_suffix('.json')} was changed: its fingerprint does not fit its images and captions"
        )
    try:
        scores = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, OSError, EOFError):
        raise InputError(f"{path} is not a whole .npy array of numbers: score it again") from None
    shape = (len(gallery.keys), len(gallery.captions))
    if scores.shape != shape or scores.dtype != np.float32:
        raise InputError(f"{path} is {scores.dtype} of shape {scores.shape}, its card says float32 of shape {shape}")
    return SavedMatrix(card["model"], scores, gallery)


def _read_card(file: Path) -> dict[str, Any]:
    if not file.is_file():
        raise InputError(f"{file} is missing: without it nobody knows of which images and captions the matrix is")
    card = read_json(file)
    if not isinstance(card, dict) or (card.get("format"), card.get("version")) != (_FORMAT, _VERSION):
        raise InputError(f'{file} does not say "format": "{_FORMAT}", "version": {_VERSION}')
    texts = all(isinstance(card.get(name), str) for name in ("model", "data", "split", "fingerprint"))
    lists = all(_is_list_of(str, card.get(name)) for name in ("images", "captions"))
    if not (texts and lists and _is_list_of(int, card.get("image_of"))):
        raise InputError(f"{file} is not whole: score again")
    return card


def _is_list_of(kind: type, value: object) -> bool:
    return isinstance(value, list) and all(isinstance(each, kind) for each in value)


class Sum:
    """A running sum of matrices of one shape: the paper's ensemble, in the memory of one matrix.

    `standardised` subtracts each matrix's mean and divides by its deviation first.
    """

    def __init__(self, standardised: bool = False) -> None:
        self.standardised = standardised
        self.scores: Scores | None = None

    def add(self, scores: NDArray[np.floating]) -> None:
        """Add one more."""
        mean, deviation = moments(scores) if self.standardised else (0.0, 1.0)
        if self.scores is None:
            self.scores = np.zeros(scores.shape, np.float32)
        for start, block in _blocks(scores):
            self.scores[start : start + len(block)] += ((block - mean) / deviation).astype(np.float32)


def moments(scores: NDArray[np.floating]) -> tuple[float, float]:
    """Mean and standard deviation; a deviation of 1 where all are equal."""
    count = max(1, scores.size)
    mean = sum(float(block.sum(dtype=np.float64)) for _, block in _blocks(scores)) / count
    squares = sum(float(np.square(block - mean, dtype=np.float64).sum()) for _, block in _blocks(scores))
    return mean, float(np.sqrt(squares / count)) or 1.0


def _blocks(scores: NDArray[np.floating]) -> Iterator[tuple[int, NDArray[np.floating]]]:
    for start in range(0, len(scores), _ROWS):
        yield start, scores[start : start + _ROWS]
