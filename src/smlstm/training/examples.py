"""What there is to learn from: captions and images of one or several datasets, features left in their stores."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch

from smlstm.data import Features, FeatureSpec, open_dataset, open_features
from smlstm.data.entities import Entities, PhrasedPhoto
from smlstm.errors import InputError
from smlstm.matching.batch import ImageFeatures, Tokens
from smlstm.text import Vocabulary
from smlstm.text.tokens import tokenise
from smlstm.text.word_groups import phrase_numbers
from smlstm.training.config import DataConfig
from smlstm.vision.backbones.base import MIRRORED

Integers = npt.NDArray[np.int64]
Draws = npt.NDArray[np.float64]


class Images:
    """Images of several stores under one numbering; features are read when they are asked for.

    An image has one or several views: a store and a row for each, row -1 where there is none.
    There is no cache of regions: a store read again comes from the kernel's page cache, a hundred photos in
    4 ms. Contexts are kept once seen, since some matchers need nothing else.
    """

    def __init__(self, stores: Sequence[Features], store_of: Integers, row_of: Integers) -> None:
        self.spec: FeatureSpec = stores[0].spec
        self._stores, self._store_of, self._row_of = stores, store_of, row_of  # views, images
        self._contexts = np.zeros((*store_of.shape, self.spec.context_width), np.float16)
        self._seen = np.zeros(store_of.shape, np.bool_)

    def __len__(self) -> int:
        return int(self._store_of.shape[1])

    def read(self, images: Integers, with_regions: bool = True, draws: Draws | None = None) -> ImageFeatures:
        """Float16 features of images; without regions, one zero region stands in for them.

        Of each image the photo as it is, or with draws (from 0 to below 1) one of its views.
        """
        views = np.zeros(len(images), np.int64)
        if draws is not None:
            count = (self._row_of[:, images] >= 0).sum(0)
            views = count - 1 - (draws * count).astype(np.int64)
        if not with_regions:
            unseen = np.flatnonzero(~self._seen[views, images])
            if len(unseen):
                self._read_stores(images[unseen], views[unseen])
            contexts = torch.from_numpy(self._contexts[views, images])
            return ImageFeatures(torch.zeros(len(images), 1, self.spec.region_width, dtype=torch.float16), contexts)
        return self._read_stores(images, views)

    def _read_stores(self, images: Integers, views: Integers) -> ImageFeatures:
        regions = np.empty((len(images), self.spec.regions, self.spec.region_width), np.float16)
        contexts = np.empty((len(images), self.spec.context_width), np.float16)
        stores, rows = self._store_of[views, images], self._row_of[views, images]
        order = np.lexsort((rows, stores))  # so that a disk reads forwards
        for number, store in enumerate(self._stores):
            places = order[stores[order] == number]
            if len(places):
                regions[places], contexts[places] = store.read_at(rows[places])
        self._contexts[views, images], self._seen[views, images] = contexts, True
        return ImageFeatures.from_numpy(regions, contexts)


@dataclass(frozen=True)
class Examples:
    """Captions of one split, and which image each describes."""

    images: Images
    captions: tuple[str, ...]
    image_of: Integers
    phrased: tuple[PhrasedPhoto | None, ...] | None = None
    """Of each image, what its captions name and where that is; None where nobody said it."""

    def __len__(self) -> int:
        return len(self.captions)

    def some_images(self, count: int) -> "Examples":
        """Only the captions of so many images, spread evenly: each dataset that was joined has its part."""
        images = np.unique(self.image_of)
        kept = images[np.arange(min(count, len(images))) * len(images) // min(count, len(images))]
        places = np.flatnonzero(np.isin(self.image_of, kept))
        captions = tuple(self.captions[place] for place in places)
        return Examples(self.images, captions, self.image_of[places], self.phrased)

    def encode(self, vocabulary: Vocabulary, limit: int, phrases: bool = False) -> "CaptionTokens":
        """All captions as rows of the vocabulary, once; if wanted, with which phrase each word is of."""
        rows = [vocabulary.encode(caption, limit).ids for caption in self.captions]
        lengths = np.array([len(row) for row in rows], np.int64)
        ids = np.zeros((len(rows), int(lengths.max(initial=1))), np.int32)
        numbers = np.zeros(ids.shape, np.int8) if phrases else None
        for place, row in enumerate(rows):
            ids[place, : len(row)] = row
            if numbers is not None:
                numbers[place, : len(row)] = phrase_numbers(tokenise(self.captions[place])[:limit])
        return CaptionTokens(ids, lengths, phrases=numbers)


@dataclass(frozen=True)
class CaptionTokens:
    """Encoded captions; N x longest."""

    ids: npt.NDArray[np.int32]
    lengths: Integers
    vectors: "ReadCaptions | None" = None
    phrases: npt.NDArray[np.int8] | None = None

    def select(self, captions: Integers) -> Tokens:
        """Some captions, padded to the longest of them."""
        lengths = self.lengths[captions]
        ids = self.ids[captions, : int(lengths.max())].astype(np.int64)
        vectors = None if self.vectors is None else self.vectors.select(captions)
        phrases = None if self.phrases is None else self.phrases[captions, : ids.shape[1]].astype(np.int64)
        numbers = None if phrases is None else torch.from_numpy(phrases)
        return Tokens(torch.from_numpy(ids), torch.from_numpy(lengths), vectors, numbers)


class ReadCaptions(Protocol):
    """Captions that a language model has read."""

    def select(self, captions: Integers) -> torch.Tensor:
        """Word vectors of some; N, J, width."""


def read_examples(data: Sequence[DataConfig]) -> tuple[Examples, Examples, list[str]]:
    """Training and dev captions of all datasets, and notices on what was left out."""
    stores: list[Features] = []
    parts: dict[str, list[tuple[int, str, tuple[str, ...]]]] = {"train": [], "dev": []}
    notices: list[str] = []
    for number, entry in enumerate(data):
        dataset, store = open_dataset(entry.dataset, entry.split_scheme), open_features(entry.features)
        _same_features(stores, store, data, number)
        stores.append(store)
        notices += [f"{entry.dataset.name}: {note}" for note in dataset.notes]
        for record in dataset.records:
            if record.split == "train" or (record.split == "dev" and entry.dev):
                parts[record.split].append((number, record.key, record.captions))
        for split, part in parts.items():
            keys = [key for source, key, _ in part if source == number]
            absent = sum(key not in store for key in keys)
            if absent:
                notices.append(
                    f"{absent} of {len(keys)} {split} images of {entry.dataset.name} have no features: left out"
                )
            parts[split] = [item for item in part if item[0] != number or item[1] in store]
    views = [_open_views(entry, store) for entry, store in zip(data, stores, strict=True)]
    train, dropped = _join(stores, parts["train"], "train", views)
    dev, dropped_dev = _join(stores, parts["dev"], "dev", [[] for _ in stores])
    train, dev = (
        replace(each, phrased=_phrased(data, parts[split])) for split, each in (("train", train), ("dev", dev))
    )
    if dropped + dropped_dev:
        notices.append(f"{dropped + dropped_dev} captions have no words: left out")
    return train, dev, notices


def _phrased(
    data: Sequence[DataConfig], items: Sequence[tuple[int, str, tuple[str, ...]]]
) -> tuple[PhrasedPhoto | None, ...] | None:
    """What people marked in the photos of those datasets that have it."""
    marked = {number: Entities(entry.entities) for number, entry in enumerate(data) if entry.entities is not None}
    if not marked:
        return None
    return tuple(
        marked[source].read(key) if source in marked and key in marked[source] else None for source, key, _ in items
    )


def _same_features(stores: Sequence[Features], store: Features, data: Sequence[DataConfig], number: int) -> None:
    different = stores[0].spec.difference(store.spec) if stores else None
    if different:
        field, first, this = different
        raise InputError(
            f'features that are joined must be made alike: "{field}" is {first!r} in {data[0].features} and {this!r} '
            f"in {data[number].features}; extract one of them again"
        )


def _open_views(entry: DataConfig, store: Features) -> list[Features]:
    """What else there is of a store's photos, made alike but for the mirror."""
    if entry.mirrored is None:
        return []
    view = open_features(entry.mirrored)
    plain, mark, _ = view.spec.preprocessing.partition(MIRRORED)
    different = store.spec.difference(replace(view.spec, preprocessing=plain))
    if different or not mark:
        field, expected, found = different or ("preprocessing", store.spec.preprocessing + MIRRORED, plain)
        raise InputError(
            f'{entry.mirrored} is not the mirrored view of the features: "{field}" is {found!r}, not {expected!r}; '
            "make it with smlstm extract --mirrored"
        )
    return [view]


def _join(
    stores: Sequence[Features],
    items: Sequence[tuple[int, str, tuple[str, ...]]],
    split: str,
    views: Sequence[Sequence[Features]],
) -> tuple[Examples, int]:
    captions: list[str] = []
    image_of: list[int] = []
    dropped = 0
    for image, (_, _, sentences) in enumerate(items):
        for sentence in sentences:
            if tokenise(sentence):
                captions.append(sentence)
                image_of.append(image)
            else:
                dropped += 1
    if len(set(image_of)) < 2:
        raise InputError(f"there are {len(set(image_of))} {split} images with captions and features: two are needed")
    source_of = np.array([source for source, _, _ in items], np.int64)
    most = 1 + max(map(len, views))
    store_of, row_of = np.tile(source_of, (most, 1)), np.full((most, len(items)), -1, np.int64)
    opened = list(stores)
    for number, store in enumerate(stores):
        places = np.flatnonzero(source_of == number)
        row_of[0, places] = store.rows([items[int(place)][1] for place in places])
        for view in views[number]:
            known = np.array([int(place) for place in places if items[int(place)][1] in view], np.int64)
            free = (row_of[:, known] >= 0).sum(0)
            row_of[free, known] = view.rows([items[int(place)][1] for place in known])
            store_of[free, known] = len(opened)
            opened.append(view)
    return Examples(Images(opened, store_of, row_of), tuple(captions), np.array(image_of, np.int64)), dropped
