"""What there is to learn from: captions and images of one or several datasets, features left in their stores."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from smlstm.batch import ImageFeatures, Tokens
from smlstm.data import Features, FeatureSpec, open_dataset, open_features
from smlstm.errors import InputError
from smlstm.text import Vocabulary
from smlstm.text.tokens import tokenise
from smlstm.training.config import DataConfig

Integers = npt.NDArray[np.int64]


class Images:
    """Images of several stores under one numbering; features are read when they are asked for.

    There is no cache of regions: a store read again comes from the kernel's page cache, a hundred photos in
    4 ms. Contexts are kept once seen, since some matchers need nothing else.
    """

    def __init__(self, stores: Sequence[Features], store_of: Integers, row_of: Integers) -> None:
        self.spec: FeatureSpec = stores[0].spec
        self._stores, self._store_of, self._row_of = stores, store_of, row_of
        self._contexts = np.zeros((len(store_of), self.spec.context_width), np.float16)
        self._seen = np.zeros(len(store_of), np.bool_)

    def __len__(self) -> int:
        return len(self._store_of)

    def read(self, images: Integers, with_regions: bool = True) -> ImageFeatures:
        """Features of some images, float16; without regions, one zero region stands in for them."""
        if not with_regions:
            unseen = np.unique(images[~self._seen[images]])
            if len(unseen):
                self._read_stores(unseen)
            contexts = torch.from_numpy(self._contexts[images])
            return ImageFeatures(torch.zeros(len(images), 1, self.spec.region_width, dtype=torch.float16), contexts)
        return self._read_stores(images)

    def _read_stores(self, images: Integers) -> ImageFeatures:
        regions = np.empty((len(images), self.spec.regions, self.spec.region_width), np.float16)
        contexts = np.empty((len(images), self.spec.context_width), np.float16)
        # In the order of the rows, so that a disk reads forwards.
        order = np.lexsort((self._row_of[images], self._store_of[images]))
        for number, store in enumerate(self._stores):
            places = order[self._store_of[images[order]] == number]
            if len(places):
                regions[places], contexts[places] = store.read_at(self._row_of[images[places]])
        self._contexts[images], self._seen[images] = contexts, True
        return ImageFeatures(torch.from_numpy(regions), torch.from_numpy(contexts))


@dataclass(frozen=True)
class Examples:
    """Captions of one split, and which image each describes."""

    images: Images
    captions: tuple[str, ...]
    image_of: Integers

    def __len__(self) -> int:
        return len(self.captions)

    def first_images(self, count: int) -> "Examples":
        """Only the captions of the first images."""
        kept = np.unique(self.image_of)[:count]
        places = np.flatnonzero(np.isin(self.image_of, kept))
        return Examples(self.images, tuple(self.captions[place] for place in places), self.image_of[places])

    def encode(self, vocabulary: Vocabulary, limit: int) -> "CaptionTokens":
        """All captions as rows of the word embedding, once."""
        rows = [vocabulary.encode(caption, limit).ids for caption in self.captions]
        lengths = np.array([len(row) for row in rows], np.int64)
        ids = np.zeros((len(rows), int(lengths.max(initial=1))), np.int32)
        for place, row in enumerate(rows):
            ids[place, : len(row)] = row
        return CaptionTokens(ids, lengths)


@dataclass(frozen=True)
class CaptionTokens:
    """Encoded captions; N x longest."""

    ids: npt.NDArray[np.int32]
    lengths: Integers

    def select(self, captions: Integers) -> Tokens:
        """Some captions, padded to the longest of them."""
        lengths = self.lengths[captions]
        ids = self.ids[captions, : int(lengths.max())].astype(np.int64)
        return Tokens(torch.from_numpy(ids), torch.from_numpy(lengths))


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
    train, dropped = _join(stores, parts["train"], "train")
    dev, dropped_dev = _join(stores, parts["dev"], "dev")
    if dropped + dropped_dev:
        notices.append(f"{dropped + dropped_dev} captions have no words: left out")
    return train, dev, notices


def _same_features(stores: Sequence[Features], store: Features, data: Sequence[DataConfig], number: int) -> None:
    different = stores[0].spec.difference(store.spec) if stores else None
    if different:
        field, first, this = different
        raise InputError(
            f'features that are joined must be made alike: "{field}" is {first!r} in {data[0].features} and {this!r} '
            f"in {data[number].features}; extract one of them again"
        )


def _join(
    stores: Sequence[Features], items: Sequence[tuple[int, str, tuple[str, ...]]], split: str
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
    row_of = np.empty(len(items), np.int64)
    store_of = np.array([source for source, _, _ in items], np.int64)
    for number, store in enumerate(stores):
        places = np.flatnonzero(store_of == number)
        row_of[places] = store.rows([items[int(place)][1] for place in places])
    return Examples(Images(stores, store_of, row_of), tuple(captions), np.array(image_of, np.int64)), dropped
