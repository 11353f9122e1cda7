"""The batch extractor: photos in, features out in the same order, and a bad file never stops the job.

Every worker thread takes its batch all the way from file to features, so decoding and inference share the cores
without a queue between them. Only a few batches are under way at a time, however many photos there are.
"""

import threading
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from smlstm.errors import ConfigurationError
from smlstm.vision.backbones.base import Backbone
from smlstm.vision.decode import LIMIT_MEGAPIXELS, decoded_photo
from smlstm.vision.photo_header import About, about_photo
from smlstm.vision.reading import read_file
from smlstm.vision.runtime import Runner, make_runner, usable_cores
from smlstm.vision.unreadable import UnreachablePhoto, UnreadablePhoto

_FLOAT16_MAX = float(np.finfo(np.float16).max)

Photo = tuple[str, Path]


@dataclass(frozen=True)
class Skipped:
    """A photo that could not be used, and why."""

    key: str
    path: str
    reason: str
    source: str | None = None
    """What was read and found unusable; None where nothing was."""
    unreachable: bool = False
    """Whether the photo could not be had just now, which is not its fault: another run may look again."""

    def error(self) -> UnreadablePhoto:
        """What to raise where no photo may be missing."""
        return (UnreachablePhoto if self.unreachable else UnreadablePhoto)(self.path, self.reason)


@dataclass(frozen=True, eq=False)
class _Readable:
    """A photo on its way: S x S x 3 pixels, and what is told of it."""

    key: str
    path: str
    source: str
    about: About
    pixels: NDArray[np.uint8]


@dataclass(frozen=True, eq=False)
class ExtractedBatch:
    """Features of some photos: regions B x I x F and context B x D in float16, what made them, what was left out."""

    keys: list[str]
    regions: NDArray[np.float16]
    context: NDArray[np.float16]
    sources: list[str]
    abouts: list[About]
    skipped: list[Skipped]


class Extractor:
    """Turns photos into a backbone's features, using every core."""

    def __init__(
        self,
        backbone: Backbone,
        *,
        runtime: str = "auto",
        workers: int | None = None,
        batch_size: int = 16,
        limit_megapixels: float = LIMIT_MEGAPIXELS,
    ):
        if batch_size < 1:
            raise ConfigurationError(f"the batch size must be at least 1, not {batch_size}")
        if limit_megapixels <= 0:
            raise ConfigurationError(f"the limit must be above 0 megapixels, not {limit_megapixels:g}")
        self.workers = usable_cores() if workers is None else max(1, workers)
        self.runner: Runner = make_runner(backbone, runtime, streams=self.workers)
        # As the runner has it: what a runtime changes in the features is said there.
        self.backbone = self.runner.backbone
        self.batch_size = batch_size
        self.limit_megapixels = limit_megapixels

    def extract(self, photos: Iterable[tuple[str, Path | str]]) -> Generator[ExtractedBatch, None, None]:
        """Yield the features of (key, path) pairs, batch by batch, in their order."""
        waiting = iter((key, Path(path)) for key, path in photos)
        pool = ThreadPoolExecutor(self.workers, thread_name_prefix="extract")
        under_way: deque[Future[ExtractedBatch]] = deque()
        stopped = threading.Event()
        try:
            while True:
                # One batch more than there are workers: nobody waits while the oldest one is stored.
                while len(under_way) <= self.workers and (batch := list(islice(waiting, self.batch_size))):
                    under_way.append(pool.submit(self._extract_batch, batch, stopped))
                if not under_way:
                    return
                yield under_way.popleft().result()
        finally:
            stopped.set()  # who ends early waits for the photos at work, not for their batches
            pool.shutdown(cancel_futures=True)

    def _extract_batch(self, photos: Sequence[Photo], stopped: threading.Event) -> ExtractedBatch:
        network = self.backbone
        regions = np.empty((len(photos), network.regions, network.region_width), np.float16)
        context = np.empty((len(photos), network.context_width), np.float16)
        keys: list[str] = []
        sources: list[str] = []
        abouts: list[About] = []
        skipped: list[Skipped] = []
        readable = self._readable(photos, skipped, stopped)
        while chunk := list(islice(readable, self.runner.photos_at_once)):
            found = self.runner.run(np.stack([each.pixels for each in chunk]))
            for each, *features in zip(chunk, *found, strict=True):
                # A comparison with NaN is false, so this catches it too.
                if not all(abs(bound) <= _FLOAT16_MAX for f in features for bound in (f.min(), f.max())):
                    reason = f"{network.name} gives features beyond float16"
                    skipped.append(Skipped(each.key, each.path, reason, each.source))
                    continue
                regions[len(keys)], context[len(keys)] = features
                keys.append(each.key)
                sources.append(each.source)
                abouts.append(each.about)
        return ExtractedBatch(keys, regions[: len(keys)], context[: len(keys)], sources, abouts, skipped)

    def _readable(
        self, photos: Sequence[Photo], skipped: list[Skipped], stopped: threading.Event
    ) -> Iterator[_Readable]:
        for key, path in photos:
            if stopped.is_set():
                return
            found = self._read(key, path)
            if isinstance(found, Skipped):
                skipped.append(found)
            else:
                yield found

    def _read(self, key: str, path: Path) -> _Readable | Skipped:
        """Read a photo once, so that it is what it says it was made from."""
        source = None
        try:
            with read_file(path, self.limit_megapixels) as (data, source):
                pixels = self._pixels(data, key, path)
                return _Readable(key, str(path), source, about_photo(data), pixels)
        except UnreadablePhoto as error:
            return Skipped(key, str(path), error.reason, source, isinstance(error, UnreachablePhoto))
        except MemoryError:
            return Skipped(key, str(path), "there is not enough memory to read it", source, True)

    def _pixels(self, data: bytes, key: str, path: Path) -> NDArray[np.uint8]:
        size, limit = self.backbone.input_size, self.limit_megapixels
        with decoded_photo(data, name=str(path), at_least=size, limit_megapixels=limit) as photo:
            return self.backbone.preprocess(photo, key)
