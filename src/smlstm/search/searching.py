"""A search: a shortlist by the embeddings, put in order by the reranker."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from smlstm.batch import Batch
from smlstm.pretrained import Pair
from smlstm.search.browsing import photos_in
from smlstm.search.found import Found, Match
from smlstm.search.packing import Packing
from smlstm.search.query import Term, direction, log_probability
from smlstm.search.shortlist import nearest
from smlstm.search.snapshot import Filter, Mask, Snapshot
from smlstm.search.tables import matrix

SHORTLIST = 100


@dataclass(frozen=True)
class _Candidate:
    row: int
    similarity: float
    probability: float | None = None
    scores: tuple[float, ...] = ()

    @property
    def rank(self) -> float:
        return self.similarity if self.probability is None else self.probability


@dataclass(frozen=True)
class Searcher:
    """Answers questions about one snapshot of a library."""

    snapshot: Snapshot
    pair: Pair
    packing: Packing
    exact_below: int

    def search(
        self,
        terms: Sequence[Term],
        chosen: Filter,
        *,
        k: int,
        shortlist: int,
        minimum: float,
        like: Tensor | None,
        part: tuple[int, int] | None = None,
    ) -> Found:
        """The k best photos; with `like`, an embedding, the shortlist is what is nearest to it."""
        files = self.snapshot.files(chosen)
        allowed = self.snapshot.photos(files)
        sentences = [term.sentence for term in terms]
        # Any of the k could come from the end of the shortlist: it is never shorter than what is asked for.
        size = max(shortlist, k)
        if like is None:
            like = direction(terms, self.pair.embed_sentences(sentences))
        rows, cosines = nearest(self.snapshot, like.numpy(), allowed, size, self.exact_below)
        if part is not None:
            rows, cosines = rows[slice(*part)], cosines[slice(*part)]
        candidates = [_Candidate(int(row), float(cosine)) for row, cosine in zip(rows, cosines, strict=True)]
        if terms and candidates and shortlist:
            candidates = self._rerank(terms, candidates)
        best = [each for each in candidates if each.rank >= minimum][:k]
        unknown = tuple(self.pair.unknown_words(sentences))
        return Found(self._matches(best, files), int(allowed.sum()), unknown, self.pair.calibrated or not terms)

    def _rerank(self, terms: Sequence[Term], candidates: Sequence[_Candidate]) -> list[_Candidate]:
        vectors, images = self.encoded([each.row for each in candidates])
        scores = self.pair.score(vectors, images, [term.sentence for term in terms])  # M, N
        logs = log_probability(terms, self.pair.calibration.log_odds(scores))  # M
        order = torch.argsort(logs, descending=True, stable=True).tolist()
        values, numbers = logs.tolist(), scores.tolist()
        return [
            replace(candidates[each], probability=math.exp(values[each]), scores=tuple(numbers[each])) for each in order
        ]

    def encoded(self, rows: Sequence[int]) -> tuple[Tensor, Batch]:
        """Some photos as both matchers encode them."""
        order = np.argsort(rows)  # a table is read fastest in its own order
        table = self.snapshot.read(["embedding", "regions"], np.asarray(rows)[order].tolist())
        back = np.argsort(order)
        vectors, regions = (matrix(table[name])[back] for name in ("embedding", "regions"))
        return torch.from_numpy(vectors.astype(np.float32)), self.packing.unpack(regions)

    def _matches(self, best: Sequence[_Candidate], files: Mask) -> tuple[Match, ...]:
        photos = photos_in(self.snapshot, [each.row for each in best], files)
        return tuple(
            replace(photo, probability=each.probability, similarity=each.similarity, scores=each.scores)
            for photo, each in zip(photos, best, strict=True)
        )
