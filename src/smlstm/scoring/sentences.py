"""Sentences, prepared in groups of like length, so that little of a tile is padding."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from smlstm.errors import InputError
from smlstm.files import fingerprint
from smlstm.matching.batch import Batch
from smlstm.matching.matcher import Matcher
from smlstm.scoring.images import batch_parts

if TYPE_CHECKING:
    from smlstm.scoring.job import Engine

Sentences = Sequence[str] | Batch
_FEWEST, _MOST = 128, 4096


class SentenceGroups:
    """Groups of sentences, prepared once as far as memory allows, and again at every use beyond that."""

    def __init__(self, engine: "Engine", sentences: Sentences, size: int, memory: int) -> None:
        self.engine, self.sentences = engine, sentences
        self._order = torch.argsort(_lengths(engine.matcher, sentences), stable=True)
        self.columns = _cut(self._order, size)
        self._memory = memory
        self._kept: dict[int, Batch] = {}

    @classmethod
    def for_chosen(cls, engine: "Engine", sentences: Sentences, memory: int) -> "SentenceGroups":
        """Larger groups than a grid's, as far as memory allows: only some of a group's sentences belong to an image."""
        groups = cls(engine, sentences, _FEWEST, memory)
        if len(sentences) // 2 > _FEWEST:
            needed = batch_bytes(groups._prepare(groups._order[-1:]))  # by the longest
            size = min(_MOST, len(sentences) // 2, memory // (4 * needed))
            groups.columns = _cut(groups._order, max(_FEWEST, size))
        return groups

    def __iter__(self) -> Iterator[tuple[Tensor, Batch]]:
        """Columns of the matrix, and their sentences prepared."""
        for number, columns in enumerate(self.columns):
            prepared = self._kept.get(number)
            if prepared is None:
                prepared = self._prepare(columns)
                size = batch_bytes(prepared)
                if size <= self._memory:
                    self._memory -= size
                    self._kept[number] = prepared
            yield columns, prepared

    @property
    def all_kept(self) -> bool:
        """Whether no group has to be prepared again."""
        return len(self._kept) == len(self.columns)

    def _prepare(self, columns: Tensor) -> Batch:
        if isinstance(self.sentences, Batch):
            return self.engine.prepare_sentences(self.sentences.select(columns))
        return self.engine.prepare_sentences([self.sentences[column] for column in columns.tolist()])


def _cut(order: Tensor, size: int) -> list[Tensor]:
    return [order[start : start + size] for start in range(0, len(order), size)]


def check_sentences(sentences: Sentences) -> None:
    """Refuse one string in place of many, which would be read letter by letter."""
    if isinstance(sentences, str):
        raise InputError(f"sentences must be a list of strings, not the string {sentences!r}")


def sentences_fingerprint(sentences: Sentences) -> str:
    """Tells these sentences from others."""
    if isinstance(sentences, Batch):
        return fingerprint(batch_parts(sentences))
    return fingerprint(sentence + "\0" for sentence in sentences)


def _lengths(matcher: Matcher, sentences: Sentences) -> Tensor:
    """Words of each sentence; a sentence without any is refused here, by its place among all."""
    if not isinstance(sentences, Batch):
        return matcher.tokens(sentences).lengths.cpu()
    mask = getattr(sentences, "mask", None)
    return torch.zeros(len(sentences)) if mask is None else mask.sum(1).cpu()


def batch_bytes(batch: Batch) -> int:
    """Memory of all tensors of a batch."""
    total = 0

    def count(tensor: Tensor) -> Tensor:
        nonlocal total
        total += tensor.numel() * tensor.element_size()
        return tensor

    batch._map(count)
    return total
