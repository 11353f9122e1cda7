"""What is ranked: the images of a split and all of their captions."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from smlstm.data import Dataset, Record
from smlstm.errors import InputError
from smlstm.files import fingerprint
from smlstm.text.tokens import tokenise


@dataclass(frozen=True, eq=False)
class Gallery:
    """Images by key, captions, and the position of each caption's image."""

    data: str
    split: str
    keys: tuple[str, ...]
    captions: tuple[str, ...]
    image_of: NDArray[np.int64]

    @cached_property
    def fingerprint(self) -> str:
        """Equal for the same images and captions in the same order, wherever the dataset lies."""
        return fingerprint([json.dumps([self.keys, self.captions, self.image_of.tolist()])])


def read_gallery(
    dataset: Dataset, split: str, images: int | None = None
) -> tuple[Gallery, tuple[Record, ...], list[str]]:
    """The first `images` images of a split (default: all) that have captions, their records, and notes on the rest."""
    notes = list(dataset.notes)
    whole = dataset.split(split)
    spoken = [tuple(caption for caption in record.captions if tokenise(caption)) for record in whole]
    described = [place for place, captions in enumerate(spoken) if captions]
    if not described:
        raise InputError(f"{dataset.root} has no captions in its {split} split: there is nothing to rank")
    silent = sum(len(record.captions) for record in whole) - sum(map(len, spoken))
    if silent:
        notes.append(f"{silent} captions have no words: left out")
    if len(described) < len(whole):
        notes.append(f"{len(whole) - len(described)} of {len(whole)} {split} images have no caption: left out")
    if images is not None and images > len(described):
        notes.append(f"the {split} split has {len(described)} images, fewer than {images}")
    described = described[:images]
    captions = [caption for place in described for caption in spoken[place]]
    image_of = np.repeat(np.arange(len(described)), [len(spoken[place]) for place in described])
    records = tuple(whole[place] for place in described)
    keys = tuple(record.key for record in records)
    return Gallery(dataset.name, records[0].split, keys, tuple(captions), image_of), records, notes


def spoken_records(gallery: Gallery, records: Sequence[Record]) -> tuple[Record, ...]:
    """The records of a gallery with those of their captions that have words."""
    captions: list[list[str]] = [[] for _ in records]
    for caption, image in zip(gallery.captions, gallery.image_of, strict=True):
        captions[image].append(caption)
    return tuple(replace(record, captions=tuple(own)) for record, own in zip(records, captions, strict=True))


def spread(records: Sequence[Record], count: int) -> tuple[Record, ...]:
    """Some records from all over a split: datasets lie in the order of names, and neighbours are alike."""
    places = np.linspace(0, len(records) - 1, min(count, len(records))).round().astype(int)
    return tuple(records[place] for place in places)
