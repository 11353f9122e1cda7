"""The shortlist: for each image the best sentences, for each sentence the best images, by a cheap score."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from smlstm.errors import InputError
from smlstm.matching.batch import Batch, join
from smlstm.model.smlstm import EncodedSide
from smlstm.scoring.fused import PreparedSide
from smlstm.scoring.images import Held, ImageSource, Stream
from smlstm.scoring.job import Engine, slices, to_numpy
from smlstm.scoring.sentences import SentenceGroups, Sentences, batch_bytes

_GROUP, _IMAGES = 512, 64


class CheapScores(ABC):
    """All scores of a cheap kind, a block of rows at a time."""

    def __init__(self, engine: Engine, source: ImageSource, sentences: Sentences) -> None:
        self.engine = engine
        self.shape = (len(source), len(sentences))

    @property
    def block(self) -> int:
        """Rows that are about a million scores."""
        return max(1, (1 << 20) // max(1, self.shape[1]))

    @abstractmethod
    def rows(self, start: int, stop: int) -> Tensor:
        """Scores of some images with all sentences, in the sentences' own order; b, N."""


class MatcherScores(CheapScores):
    """Those of a matcher of its own; both encoded sides are held in memory.

    Meant for embeddings: a vector an image, a vector a sentence.
    """

    def __init__(self, engine: Engine, source: ImageSource, sentences: Sentences, memory: int) -> None:
        super().__init__(engine, source, sentences)
        self.groups = SentenceGroups(engine, sentences, _GROUP, memory // 2)
        parts: list[Batch] = [
            engine.prepare_images(source.read(rows.start, rows.stop), rows.start)
            for rows in slices(len(source), _IMAGES)
        ]
        self.images = join(parts) if parts else None

    def rows(self, start: int, stop: int) -> Tensor:
        """Group by group."""
        assert self.images is not None
        scores = torch.empty(stop - start, self.shape[1])
        block = self.images.select(slice(start, stop))
        for columns, prepared in self.groups:
            scores[:, columns] = to_numpy(self.engine.scorer.grid(block, prepared))
        return scores


@dataclass(frozen=True)
class Encoded:
    """What a list was drawn up from and its pairs need again."""

    groups: SentenceGroups
    source: ImageSource
    image_bytes: int


class GlobalScores(CheapScores):
    """The global score of an sm-LSTM, x . v: the part of its score that is a product of two vectors.

    The vectors of all images and sentences are held in memory; with `keep`, so is whatever else was encoded with
    them, as far as memory allows.
    """

    def __init__(
        self, engine: Engine, source: ImageSource, sentences: Sentences, memory: int, keep: bool = False
    ) -> None:
        super().__init__(engine, source, sentences)
        groups = SentenceGroups.for_chosen(engine, sentences, memory // 2)
        self.images = self.sentences = torch.empty(0)
        for columns, prepared in groups:
            whole = _whole(prepared)
            if not len(self.sentences):
                self.sentences = whole.new_empty(len(sentences), whole.shape[1])
            self.sentences[columns.to(whole.device)] = whole
        wholes: list[Tensor] = []
        parts: list[Batch] = []
        room = memory // 4 if keep else -1
        for rows in slices(len(source), _IMAGES):
            encoded = engine.encode_images(source.read(rows.start, rows.stop), rows.start)
            wholes.append(_whole(encoded))
            parts.append(encoded)
            room -= batch_bytes(encoded)
            if room < 0:
                parts.clear()  # encoded again for the pairs
                if isinstance(source, Stream):
                    raise InputError(
                        f"a stream of images can be read once, and {memory / 2**30:.3g} GiB of memory do not hold what "
                        "is needed of them again: store the features, give more memory, or score without a shortlist"
                    )
        self.images = torch.cat(wholes) if wholes else self.images
        self.kept: Encoded | None = None
        if keep:
            self.kept = Encoded(groups, Held(parts), memory // 4 - room) if room >= 0 else Encoded(groups, source, 0)

    def rows(self, start: int, stop: int) -> Tensor:
        """One product."""
        return to_numpy(self.images[start:stop] @ self.sentences.T)


def _whole(side: Batch) -> Tensor:
    """Vectors that the global score compares."""
    whole = side.whole if isinstance(side, (EncodedSide, PreparedSide)) else None
    if whole is None:
        raise InputError("these images or sentences were encoded without a global score: give features and texts")
    return whole


@dataclass(frozen=True)
class ShortlistRecall:
    """Shares of right pairs (an image and a sentence of its own) that are in the shortlist."""

    annotation: float
    """Right sentences among the best of their image."""
    retrieval: float
    """Right images among the best of their sentence."""
    either: float
    """Right pairs that are scored, whichever list brought them."""
    images: float
    """Images with at least one right sentence that is scored: no annotation can hit more."""


@dataclass(frozen=True)
class Shortlist:
    """Pairs worth scoring, by ascending image; a pair may be in an image's list, in a sentence's, or in both."""

    rows: npt.NDArray[np.int64]  # P
    columns: npt.NDArray[np.int64]  # P
    scores: npt.NDArray[np.float32]  # P: the cheap matcher's
    of_image: npt.NDArray[np.bool_]  # P: among the best sentences of its image
    of_sentence: npt.NDArray[np.bool_]  # P: among the best images of its sentence
    highest: float
    """Of all cheap scores, those of the shortlist and the rest."""
    cheap: CheapScores

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def share(self) -> float:
        """Of all pairs, those that are scored."""
        images, sentences = self.cheap.shape
        return len(self) / max(1, images * sentences)

    def recall(self, image_of: npt.ArrayLike) -> ShortlistRecall:
        """What the shortlist costs; `image_of` (N) gives the row of each sentence's image."""
        images, sentences = self.cheap.shape
        right = np.asarray(image_of, dtype=np.int64)
        if right.shape != (sentences,) or (sentences and not (right.min() >= 0 and right.max() < images)):
            raise InputError(f"image_of must give the row, below {images}, of each of {sentences} sentences")
        if sentences == 0:
            raise InputError("there is nothing to measure: no sentence")
        wanted = right * sentences + np.arange(sentences)
        keys = self.rows * sentences + self.columns
        place = np.minimum(np.searchsorted(keys, wanted), max(0, len(keys) - 1))
        found = keys[place] == wanted if len(keys) else np.zeros(sentences, bool)
        reached = np.unique(right[found])
        return ShortlistRecall(
            float(np.mean(found & self.of_image[place])),
            float(np.mean(found & self.of_sentence[place])),
            float(np.mean(found)),
            len(reached) / len(np.unique(right)),
        )


def shortlist_from(cheap: CheapScores, per_image: int, per_sentence: int) -> Shortlist:
    """The best `per_image` sentences of each image and the best `per_sentence` images of each sentence."""
    images, sentences = cheap.shape
    per_image, per_sentence = min(per_image, sentences), min(per_sentence, images)
    of_image = np.empty((images, per_image), np.int64)
    best = torch.full((per_sentence, sentences), -torch.inf)
    of_sentence = torch.zeros((per_sentence, sentences), dtype=torch.int64)
    highest = -np.inf
    for part in slices(images if sentences else 0, cheap.block):
        scores = cheap.rows(part.start, part.stop)
        highest = max(highest, float(scores.max()))
        of_image[part] = scores.topk(per_image, dim=1, sorted=False).indices.numpy()
        place = torch.arange(part.start, part.stop)[:, None].expand(-1, sentences)
        best, kept = torch.cat([best, scores]).topk(per_sentence, dim=0)
        of_sentence = torch.cat([of_sentence, place]).gather(0, kept)
    by_image = np.arange(images)[:, None] * sentences + of_image
    by_sentence = of_sentence.numpy() * sentences + np.arange(sentences)
    keys = np.union1d(by_image, by_sentence)
    rows, columns = keys // max(1, sentences), keys % max(1, sentences)
    return Shortlist(
        rows,
        columns,
        _scores_of(cheap, rows, columns),
        np.isin(keys, by_image),
        np.isin(keys, by_sentence),
        highest,
        cheap,
    )


def _scores_of(
    cheap: CheapScores, rows: npt.NDArray[np.int64], columns: npt.NDArray[np.int64]
) -> npt.NDArray[np.float32]:
    """Cheap scores of chosen pairs, computed again: cheaper than to carry all of them along."""
    found = np.empty(len(rows), np.float32)
    for part in slices(cheap.shape[0] if len(rows) else 0, cheap.block):
        first, last = np.searchsorted(rows, [part.start, part.stop])
        scores = cheap.rows(part.start, part.stop).numpy()
        found[first:last] = scores[rows[first:last] - part.start, columns[first:last]]
    return found
