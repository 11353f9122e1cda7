"""Captions and images of one or several datasets under one numbering, and the stores that a stage reads them from."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np

from smlstm.data import Features, open_dataset, open_features
from smlstm.data.entities import Entities, PhrasedPhoto
from smlstm.errors import InputError
from smlstm.text import tokenise
from smlstm.training.data_config import DataConfig
from smlstm.training.examples import Examples, Images
from smlstm.vision.views import AS_IT_IS, View


@dataclass(frozen=True)
class PhotoStores:
    """Where the features of a dataset's photos are."""

    training: tuple[Path, ...]
    """Views of training photos, the first as they are if there is such a one."""
    dev: Path
    """Dev photos as they are."""


@dataclass(frozen=True)
class _Item:
    source: int
    key: str
    captions: tuple[str, ...]
    left_out: tuple[str, ...] = ()


def feature_stores(data: Sequence[DataConfig]) -> list[PhotoStores]:
    """What a stage reads that looks through the published backbone."""
    found = []
    for number, entry in enumerate(data):
        if entry.features is None:
            raise InputError(f"data.{number}.features is missing: a stage wants to read it")
        found.append(PhotoStores((entry.features, *entry.views), entry.features))
    return found


def read_examples(
    data: Sequence[DataConfig], stores: Sequence[PhotoStores] | None = None
) -> tuple[Examples, Examples, list[str]]:
    """Training and dev captions of all datasets, and notices on what was left out."""
    stores = feature_stores(data) if stores is None else stores
    opener = cache(open_features)
    training: list[list[Features]] = []
    dev: list[list[Features]] = []
    items: dict[str, list[_Item]] = {"train": [], "dev": []}
    notices: list[str] = []
    for number, (entry, places) in enumerate(zip(data, stores, strict=True)):
        dataset = open_dataset(entry.dataset, entry.split_scheme)
        training.append(_open_views(opener, places.training, stores[0].training[0]))
        measured_on = next((each.dev for known, each in zip(data, stores, strict=True) if known.dev), places.dev)
        dev.append(_open_views(opener, (places.dev,), measured_on, as_they_are=True) if entry.dev else [])
        notices += [f"{entry.dataset.name}: {note}" for note in dataset.notes]
        for split, opened in (("train", training), ("dev", dev if entry.dev else None)):
            if opened is None:
                continue
            limit = entry.captions if split == "train" else None
            records = [each for each in dataset.records if each.split == split]
            own = [
                _Item(number, each.key, each.captions[:limit], each.captions[len(each.captions[:limit]) :])
                for each in records
            ]
            there = [item for item in own if any(item.key in store for store in opened[number])]
            if len(there) < len(own):
                notices.append(
                    f"{len(own) - len(there)} of {len(own)} {split} images of {entry.dataset.name} have no features: "
                    "left out"
                )
            items[split] += there
    joined = {split: _join(opened, items[split], split) for split, opened in (("train", training), ("dev", dev))}
    dropped = sum(count for _, count in joined.values())
    if dropped:
        notices.append(f"{dropped} captions have no words: left out")
    train, measured = (replace(each, phrased=_phrased(data, items[split])) for split, (each, _) in joined.items())
    return train, measured, notices


def _phrased(data: Sequence[DataConfig], items: Sequence[_Item]) -> tuple[PhrasedPhoto | None, ...] | None:
    """What people marked in the photos of those datasets that have it."""
    marked = {number: Entities(entry.entities) for number, entry in enumerate(data) if entry.entities is not None}
    if not marked:
        return None
    return tuple(
        marked[item.source].read(item.key) if item.source in marked and item.key in marked[item.source] else None
        for item in items
    )


def _open_views(
    opener: Callable[[Path], Features], paths: Sequence[Path], like: Path, *, as_they_are: bool = False
) -> list[Features]:
    """Open stores that must be made like another one, but for the view, of which no two are the same."""
    expected = opener(like).spec
    expected = replace(expected, preprocessing=View.split(expected.preprocessing)[0])
    opened: dict[View, Features] = {}
    for path in paths:
        store = opener(path)
        preprocessing, view = View.split(store.spec.preprocessing)
        different = expected.difference(replace(store.spec, preprocessing=preprocessing))
        if different:
            field, first, this = different
            raise InputError(
                f'features that are joined must be made alike: "{field}" is {first!r} in {like} and {this!r} in '
                f"{path}; extract one of them again"
            )
        if as_they_are and view != AS_IT_IS:
            raise InputError(f"{path} does not show photos as they are ({view.text[2:]}), and dev is measured on it")
        if view in opened:
            raise InputError(
                f"{path} is no other view than {paths[list(opened).index(view)]}: make one with smlstm extract "
                "--mirrored or --augmented SEED"
            )
        opened[view] = store
    return list(opened.values())


def _join(stores: Sequence[Sequence[Features]], items: Sequence[_Item], split: str) -> tuple[Examples, int]:
    captions: list[str] = []
    image_of: list[int] = []
    dropped = 0
    for image, item in enumerate(items):
        for sentence in item.captions:
            if tokenise(sentence):
                captions.append(sentence)
                image_of.append(image)
            else:
                dropped += 1
    if len(set(image_of)) < 2:
        raise InputError(f"there are {len(set(image_of))} {split} images with captions and features: two are needed")
    keys = [item.key for item in items]
    source_of = np.array([item.source for item in items], np.int64)
    most = max(map(len, stores))
    store_of, row_of = np.zeros((most, len(items)), np.int64), np.full((most, len(items)), -1, np.int64)
    opened: list[Features] = []
    for number, views in enumerate(stores):
        places = np.flatnonzero(source_of == number)
        for view in views:
            known = np.array([int(place) for place in places if keys[int(place)] in view], np.int64)
            free = (row_of[:, known] >= 0).sum(0)
            row_of[free, known] = view.rows([keys[int(place)] for place in known])
            store_of[free, known] = len(opened)
            opened.append(view)
    images = Images(opened, store_of, row_of, keys)
    left_out = tuple(" ".join(item.left_out) for item in items)
    return Examples(images, tuple(captions), np.array(image_of, np.int64), left_out=left_out), dropped
