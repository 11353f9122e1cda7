"""Where images come from: in memory, from a feature store, or from a stream, read a block of rows at a time."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

import numpy as np
import torch
from torch import Tensor

from smlstm.data.features import Features, Rows
from smlstm.errors import InputError
from smlstm.files import fingerprint
from smlstm.matching.batch import Batch, ImageFeatures, join


class ImageSource(ABC):
    """M images, read in blocks of rows from the first to the last."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def read(self, start: int, stop: int) -> Batch:
        """Rows from `start` to before `stop`: features, or what a matcher encoded."""

    @abstractmethod
    def subset(self, rows: Rows) -> "ImageSource":
        """Some of the images, in the order of these rows."""

    @abstractmethod
    def fingerprint(self) -> str:
        """Tells these images from others, as far as can be told without reading them all."""


class Held(ImageSource):
    """Images that are in memory already, in one batch or several."""

    def __init__(self, parts: Sequence[Batch]) -> None:
        self.parts = [part for part in parts if len(part)]
        self.ends = np.cumsum([len(part) for part in self.parts])

    def __len__(self) -> int:
        return int(self.ends[-1]) if self.parts else 0

    def read(self, start: int, stop: int) -> Batch:
        """Views where a block lies in one batch."""
        found = []
        for part, end in zip(self.parts, self.ends.tolist(), strict=True):
            first = end - len(part)
            if first < stop and end > start:
                found.append(part.select(slice(max(0, start - first), stop - first)))
        return found[0] if len(found) == 1 else join(found)

    def subset(self, rows: Rows) -> "Held":
        """A copy of these images."""
        return Held([self.read(0, len(self)).select(torch.from_numpy(rows))] if len(rows) else [])

    def fingerprint(self) -> str:
        """Of all their numbers."""
        return fingerprint(chain.from_iterable(map(batch_parts, self.parts)))


class Stored(ImageSource):
    """Images of a feature store, or of anything else that reads like one; optionally some rows of it."""

    def __init__(self, features: Features, rows: Sequence[int] | Rows | None = None) -> None:
        self.features = features
        self.rows = np.arange(len(features)) if rows is None else np.asarray(rows, dtype=np.int64)

    def __len__(self) -> int:
        return len(self.rows)

    def read(self, start: int, stop: int) -> ImageFeatures:
        """Read from the store."""
        regions, context = self.features.read_at(self.rows[start:stop])
        return ImageFeatures.from_numpy(regions, context)

    def subset(self, rows: Rows) -> "Stored":
        """The same store, fewer rows."""
        return Stored(self.features, self.rows[rows])

    def fingerprint(self) -> str:
        """Of the keys and of what made the features."""
        keys = self.features.keys()
        return fingerprint([repr(self.features.spec), *(keys[row] + "\0" for row in self.rows.tolist())])


class Stream(ImageSource):
    """M images that come one batch after another and only once, for example while they are extracted."""

    def __init__(self, count: int, batches: Iterable[Batch], name: str = "") -> None:
        self.count, self.name = count, name
        self._batches: Iterator[Batch] = iter(batches)
        self._position = 0
        self._waiting: list[Batch] = []

    def __len__(self) -> int:
        return self.count

    def read(self, start: int, stop: int) -> Batch:
        """Read on to `stop`; rows before `start` are passed over."""
        if start < self._position:
            raise InputError(
                "a stream of images can be read once, and this job needs them again: "
                "store the features, or score all pairs without a shortlist"
            )
        found = []
        while self._position < stop:
            batch = self._waiting.pop() if self._waiting else next(self._batches, None)
            if batch is None:
                raise InputError(f"the stream ended after {self._position} images; {self.count} were announced")
            if len(batch) > (room := stop - self._position):
                self._waiting.append(batch.select(slice(room, None)))
                batch = batch.select(slice(0, room))
            skipped = max(0, start - self._position)
            self._position += len(batch)
            if skipped < len(batch):
                found.append(batch.select(slice(skipped, None)))
        return found[0] if len(found) == 1 else join(found)

    def subset(self, rows: Rows) -> ImageSource:
        """Refused: a stream cannot be searched."""
        raise InputError("a stream of images cannot give some of them: store the features first")

    def fingerprint(self) -> str:
        """Of its length and the name that its maker gave it: nothing else is known before it is read."""
        return fingerprint([f"{self.count} {self.name}"])


Images = ImageSource | Batch | Sequence[Batch] | Features


def image_source(images: Images) -> ImageSource:
    """Whatever holds images, as something to read blocks from."""
    if isinstance(images, ImageSource):
        return images
    if isinstance(images, Batch):
        return Held([images])
    if isinstance(images, Features):
        return Stored(images)
    if isinstance(images, Sequence) and all(isinstance(part, Batch) for part in images):
        return Held(images)
    raise InputError(
        f"images must be features, an encoded batch, a list of batches, a feature store or a Stream, "
        f"not {type(images).__name__}"
    )


def batch_parts(batch: Batch) -> Iterator[str | memoryview]:
    """All numbers of a batch, to make a fingerprint of."""
    for value in batch._values():
        if isinstance(value, Tensor):
            yield f"{value.dtype} {tuple(value.shape)}"
            yield value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data
        elif isinstance(value, Batch):
            yield from batch_parts(value)
        elif isinstance(value, tuple):
            for part in value:
                yield from batch_parts(part)
