"""What there is to learn from: captions and images, features left in their stores."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch

from smlstm.data import Features, FeatureSpec
from smlstm.data.entities import PhrasedPhoto
from smlstm.matching.batch import ImageFeatures, Tokens
from smlstm.text import Vocabulary
from smlstm.text.tokens import tokenise
from smlstm.text.word_groups import phrase_numbers
from smlstm.vision.views import Part, View

Integers = npt.NDArray[np.int64]
Draws = npt.NDArray[np.float64]


class Images:
    """Images of several stores under one numbering; features are read when they are asked for.

    An image has one or several views: a store and a row for each, row -1 where there is none.
    There is no cache of regions: a store read again comes from the kernel's page cache, a hundred photos in
    4 ms. Contexts are kept once seen, since some matchers need nothing else.
    """

    def __init__(
        self, stores: Sequence[Features], store_of: Integers, row_of: Integers, keys: Sequence[str] = ()
    ) -> None:
        self.spec: FeatureSpec = stores[0].spec
        self._stores, self._store_of, self._row_of = stores, store_of, row_of  # views, images
        self._keys, self._views = keys, [View.split(store.spec.preprocessing)[1] for store in stores]
        self._contexts = np.zeros((*store_of.shape, self.spec.context_width), np.float16)
        self._seen = np.zeros(store_of.shape, np.bool_)
        self._change: Callable[[ImageFeatures], ImageFeatures] | None = None

    def through(self, change: Callable[[ImageFeatures], ImageFeatures]) -> "Images":
        """The same images, whose features are made of the stored ones when they are read."""
        changed = copy.copy(self)
        changed._change = change
        return changed

    def __len__(self) -> int:
        return int(self._store_of.shape[1])

    def read(self, images: Integers, with_regions: bool = True, draws: Draws | None = None) -> ImageFeatures:
        """Float16 features of images; without regions, one zero region stands in for them.

        Of each image its first view, or with draws (from 0 to below 1) any.
        """
        views = self._drawn(images, draws)
        if self._change is not None:
            return self._change(self._read_stores(images, views))
        if not with_regions:
            unseen = np.flatnonzero(~self._seen[views, images])
            if len(unseen):
                self._read_stores(images[unseen], views[unseen])
            contexts = torch.from_numpy(self._contexts[views, images])
            return ImageFeatures(torch.zeros(len(images), 1, self.spec.region_width, dtype=torch.float16), contexts)
        return self._read_stores(images, views)

    def parts(self, images: Integers, draws: Draws) -> list[Part]:
        """What each image shows of its photo, read with the same draws."""
        stores = self._store_of[self._drawn(images, draws), images]
        return [self._views[store].part(self._keys[image]) for store, image in zip(stores, images, strict=True)]

    def _drawn(self, images: Integers, draws: Draws | None) -> Integers:
        if draws is None:
            return np.zeros(len(images), np.int64)
        count = (self._row_of[:, images] >= 0).sum(0)
        found: Integers = count - 1 - (draws * count).astype(np.int64)
        return found

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
    left_out: tuple[str, ...] = ()
    """Of each image, what is also said of it, in captions that are not learned."""

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
        numbers = np.zeros(ids.shape, np.int32) if phrases else None
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
    phrases: npt.NDArray[np.int32] | None = None

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
