"""One scoring job: a matcher ready to score, the size of its tiles, and how far it is."""

import copy
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

from smlstm.device import settle_device
from smlstm.errors import ConfigurationError, InputError
from smlstm.files import fingerprint
from smlstm.matching.batch import Batch, ImageFeatures, join
from smlstm.matching.matcher import Matcher, evaluating
from smlstm.scoring.images import ImageSource
from smlstm.scoring.matrix import Output
from smlstm.scoring.precision import choose_precision, native_bfloat16
from smlstm.scoring.progress import Progress, ProgressCallback
from smlstm.scoring.scorer import Scorer, scorer_for
from smlstm.scoring.sentences import Sentences
from smlstm.text.language_model import language_model

TILE_BYTES = 48 << 20
"""What a tile's pairs need on their way: large enough for fast products, small enough for a shared cache."""

_IMAGES, _MOST_IMAGES, _MOST_SENTENCES = 16, 64, 512
TOGETHER = 256
"""Texts that are encoded at a time."""


@dataclass(frozen=True)
class Tile:
    """Images and sentences that are scored together."""

    images: int
    sentences: int

    @property
    def pairs(self) -> int:
        """Pairs of a tile."""
        return self.images * self.sentences


def choose_tile(tile: tuple[int, int] | None, pair_width: int) -> Tile:
    """The caller's tile, or one whose pairs need about `TILE_BYTES`."""
    if tile is not None:
        if min(tile) < 1:
            raise ConfigurationError(f"tile is {tile}: it needs at least one image and one sentence")
        return Tile(*tile)
    pairs = max(256, TILE_BYTES // (4 * pair_width))
    sentences = max(1, min(_MOST_SENTENCES, pairs // _IMAGES))
    return Tile(max(1, min(_MOST_IMAGES, pairs // sentences)), sentences)


class Engine:
    """A matcher with the scorer made for it, on the device and in the precision of a job."""

    def __init__(self, matcher: Matcher, precision: str, device: torch.device | str | None) -> None:
        here = next(matcher.parameters()).device
        self.device = settle_device(device, here)
        self.given = matcher
        if self.device != here:
            matcher = copy.deepcopy(matcher).to(self.device)  # the caller's stays where it is
        self.matcher = matcher
        self.dtype = choose_precision(precision, self.device)
        self.scorer: Scorer[Batch] = scorer_for(matcher, self.dtype)
        self._native = native_bfloat16(self.device)

    def prepare_images(self, images: Batch, first: int) -> Batch:
        """Whatever images alone decide."""
        return self.scorer.prepare_images(self.encode_images(images, first))

    def encode_images(self, images: Batch, first: int) -> Batch:
        """Encode features, or take what is encoded; `first` is the row of the first, for messages."""
        if not isinstance(images, ImageFeatures):
            return images.to(self.device)
        try:
            return self._encoded(lambda: self.matcher.encode_images(images))
        except InputError as error:
            raise InputError(f"{error} (counted from row {first})") from None

    def prepare_sentences(self, sentences: Sentences) -> Batch:
        """Encode texts, or take what is encoded; whatever sentences alone decide."""
        if isinstance(sentences, Batch):
            return self.scorer.prepare_sentences(sentences.to(self.device))
        # Sorted by length, few have to be read to the end of the longest of all.
        encoded = [self._encode_texts(sentences[part]) for part in slices(len(sentences), TOGETHER)]
        if len(encoded) > 1:
            encoded = [join(encoded)]
        return self.scorer.prepare_sentences(encoded.pop())

    def _encode_texts(self, texts: Sequence[str]) -> Batch:
        if not self._native:  # an LSTM of bfloat16 is not even emulated everywhere
            return self.matcher.encode_sentences(texts)
        return self._encoded(lambda: self.matcher.encode_sentences(texts))

    def _encoded(self, encode: Callable[[], Batch]) -> Batch:
        """An sm-LSTM's in the precision of its pairs: encoding is a good part of what a cascade costs."""
        if self.scorer.encoding == torch.float32:
            return encode()
        with torch.autocast(self.device.type, self.scorer.encoding):
            encoded = encode()
        return encoded.in_float32()

    def fingerprint(self) -> str:
        """Tells this matcher from others: kind, configuration, precision and every weight."""
        return fingerprint(self._parts())

    def _parts(self) -> Iterator[str | memoryview]:
        yield f"{self.matcher.kind} {self.dtype}"
        for part in self.matcher.modules():  # an ensemble's members have settings that show in no weight
            if isinstance(part, Matcher):
                read_by = language_model().digest if part.config.language_model else ""
                yield f"{part.kind} {part.config!r} {read_by}"
        for name, tensor in sorted(self.matcher.state_dict().items()):
            yield f"{name} {tuple(tensor.shape)}"
            yield tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data


@dataclass(frozen=True)
class Job:
    """What is scored, by what, to where, and how much of it at a time."""

    engine: Engine
    source: ImageSource
    sentences: Sentences
    output: Output
    tile: Tile
    memory: int


@contextmanager
def scoring(*matchers: Matcher) -> Iterator[None]:
    """Without gradients and without dropout; afterwards as before."""
    with evaluating(*matchers), torch.no_grad():
        yield


class Counter:
    """Counts pairs and tells the callback."""

    def __init__(self, total: int, resumed: int, callback: ProgressCallback | None) -> None:
        self.total, self.done, self.resumed, self.callback = total, resumed, resumed, callback
        self.start = time.monotonic()

    def add(self, pairs: int) -> None:
        """So many more are scored."""
        self.done += pairs
        if self.callback is not None:
            self.callback(Progress(self.done, self.total, time.monotonic() - self.start, self.resumed))


def slices(count: int, size: int) -> Iterator[slice]:
    """Cut a count into slices of at most a size."""
    for start in range(0, count, size):
        yield slice(start, min(count, start + size))


def to_numpy(scores: Tensor) -> Tensor:
    """Scores as float32 on the CPU."""
    return scores.detach().to("cpu", torch.float32)
