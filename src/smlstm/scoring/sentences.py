"""Sentences, prepared in groups of like length, so that little of a tile is padding."""

import hashlib
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from smlstm.batch import Batch
from smlstm.errors import InputError
from smlstm.matcher import Matcher
from smlstm.scoring.images import hash_batch
from smlstm.scoring.scorer import Scorer

Sentences = Sequence[str] | Batch


class SentenceGroups:
    """Groups of sentences, prepared once as far as memory allows, and again at every use beyond that."""

    def __init__(self, matcher: Matcher, scorer: Scorer[Batch], sentences: Sentences, size: int, memory: int) -> None:
        self.matcher, self.scorer, self.sentences = matcher, scorer, sentences
        order = torch.argsort(_lengths(matcher, sentences), stable=True)
        self.columns = [order[start : start + size] for start in range(0, len(order), size)]
        self._memory = memory
        self._kept: dict[int, Batch] = {}

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
            device = next(self.matcher.parameters()).device
            encoded = self.sentences.select(columns).to(device)
        else:
            encoded = self.matcher.encode_sentences([self.sentences[column] for column in columns.tolist()])
        return self.scorer.prepare_sentences(encoded)


def check_sentences(sentences: Sentences) -> None:
    """Refuse one string in place of many, which would be read letter by letter."""
    if isinstance(sentences, str):
        raise InputError(f"sentences must be a list of strings, not the string {sentences!r}")


def sentences_fingerprint(sentences: Sentences) -> str:
    """Tells these sentences from others."""
    digest = hashlib.sha256()
    if isinstance(sentences, Batch):
        hash_batch(sentences, digest)
    else:
        for sentence in sentences:
            digest.update(sentence.encode() + b"\0")
    return digest.hexdigest()


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
