"""The batch extractor: photos in, features out in the same order, and a bad file never stops the job.

Every worker thread takes its batch all the way from file to features, so decoding and inference share the cores
without a queue between them. Only a few batches are under way at a time, however many photos there are.
"""

from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from smlstm.errors import ConfigurationError
from smlstm.vision.backbones.base import Backbone
from smlstm.vision.decode import LIMIT_MEGAPIXELS, UnreadablePhoto, read_photo
from smlstm.vision.runtime import Runner, make_runner, usable_cores
from smlstm.vision.sources import place_of, source_of

_FLOAT16_MAX = float(np.finfo(np.float16).max)

Photo = tuple[str, Path]
Readable = tuple[str, Path, str, NDArray[np.uint8]]


@dataclass(frozen=True)
class Skipped:
    """A photo that could not be used, and why."""

    key: str
    path: str
    reason: str


@dataclass(frozen=True, eq=False)
class ExtractedBatch:
    """Features of some photos: regions B x I x F and context B x D in float16, what made them, what was left out."""

    keys: list[str]
    regions: NDArray[np.float16]
    context: NDArray[np.float16]
    sources: list[str]
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
        try:
            while True:
                # One batch more than there are workers: nobody waits while the oldest one is stored.
                while len(under_way) <= self.workers and (batch := list(islice(waiting, self.batch_size))):
                    under_way.append(pool.submit(self._extract_batch, batch))
                if not under_way:
                    return
                yield under_way.popleft().result()
        finally:
            pool.shutdown(cancel_futures=True)

    def _extract_batch(self, photos: Sequence[Photo]) -> ExtractedBatch:
        about = self.backbone
        regions = np.empty((len(photos), about.regions, about.region_width), np.float16)
        context = np.empty((len(photos), about.context_width), np.float16)
        keys: list[str] = []
        sources: list[str] = []
        skipped: list[Skipped] = []
        readable = self._readable(photos, skipped)
        while chunk := list(islice(readable, self.runner.photos_at_once)):
            found = self.runner.run(np.stack([pixels for *_, pixels in chunk]))
            for (key, path, source, _), *features in zip(chunk, *found, strict=True):
                # A comparison with NaN is false, so this catches it too.
                if not all(abs(bound) <= _FLOAT16_MAX for f in features for bound in (f.min(), f.max())):
                    skipped.append(Skipped(key, str(path), f"{about.name} gives features beyond float16"))
                    continue
                regions[len(keys)], context[len(keys)] = features
                keys.append(key)
                sources.append(source)
        return ExtractedBatch(keys, regions[: len(keys)], context[: len(keys)], sources, skipped)

    def _readable(self, photos: Sequence[Photo], skipped: list[Skipped]) -> Iterator[Readable]:
        for key, path in photos:
            try:
                source, pixels = self._read(path)
            except UnreadablePhoto as unreadable:
                skipped.append(Skipped(key, str(path), unreadable.reason))
            except MemoryError:
                skipped.append(Skipped(key, str(path), "it needs more memory than there is"))
            else:
                yield key, path, source, pixels

    def _read(self, path: Path) -> tuple[str, NDArray[np.uint8]]:
        """Read a photo and say what it was made from, which must not change in between."""
        before = "-"
        with suppress(OSError, ValueError):  # what is wrong with the path is for `read_photo` to say
            before = place_of(path)
        photo = read_photo(path, at_least=self.backbone.input_size, limit_megapixels=self.limit_megapixels)
        pixels = self.backbone.preprocess(photo)
        try:
            source = source_of(path)
        except OSError as error:
            raise UnreadablePhoto(path, error.strerror or str(error)) from None
        if not source.startswith(before):
            raise UnreadablePhoto(path, "it was changed while it was read")
        return source, pixels
