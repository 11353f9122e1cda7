"""A search: a shortlist by the embeddings, put in order by the reranker."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from smlstm.matching.batch import Batch
from smlstm.pair import Pair
from smlstm.search.browsing import photos_in
from smlstm.search.lance_table import matrix
from smlstm.search.matches import Found, Match
from smlstm.search.nearest import nearest
from smlstm.search.packing import Bytes, Floats, Packing
from smlstm.search.prepared import PreparedPhoto, PreparedPhotos
from smlstm.search.query import Term, direction, log_probability
from smlstm.search.snapshot import Filter, Mask, Snapshot

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
    prepared: PreparedPhotos = field(default_factory=PreparedPhotos)

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
        return Found(
            self._matches(best, files),
            int(allowed.sum()),
            tuple(self.pair.unknown_words(sentences)),
            self.pair.read_as(sentences),
            self.pair.calibrated or not terms,
        )

    def _rerank(self, terms: Sequence[Term], candidates: Sequence[_Candidate]) -> list[_Candidate]:
        photos = self._prepared([each.row for each in candidates])
        sentences = [term.sentence for term in terms]
        scores = self.pair.score_prepared(photos.vector, photos.image, sentences)  # M, N
        logs = log_probability(terms, self.pair.calibration.log_odds(scores, sentences))  # M
        order = torch.argsort(logs, descending=True, stable=True).tolist()
        values, numbers = logs.tolist(), scores.tolist()
        return [
            replace(candidates[each], probability=math.exp(values[each]), scores=tuple(numbers[each])) for each in order
        ]

    def _prepared(self, rows: Sequence[int]) -> PreparedPhoto:
        """Some photos as they are compared, most of them out of memory."""

        def read(places: Sequence[int]) -> Iterator[PreparedPhoto]:
            vectors, regions = self._stored([rows[place] for place in places])
            for place in range(len(places)):
                one = slice(place, place + 1)
                image = self.pair.prepare_images(self.packing.unpack(regions[one]))
                yield PreparedPhoto(torch.from_numpy(vectors[one]), image)

        return self.prepared.get(self.snapshot.contents[list(rows)].tolist(), read)

    def encoded(self, rows: Sequence[int]) -> tuple[Tensor, Batch]:
        """Some photos as both matchers encode them."""
        vectors, regions = self._stored(rows)
        return torch.from_numpy(vectors), self.packing.unpack(regions)

    def _stored(self, rows: Sequence[int]) -> tuple[Floats, Bytes]:
        """Embeddings and packed regions of some photos."""
        order = np.argsort(rows)  # a table is read fastest in its own order
        table = self.snapshot.read(["embedding", "regions"], np.asarray(rows)[order].tolist())
        back = np.argsort(order)
        vectors, regions = (matrix(table[name])[back] for name in ("embedding", "regions"))
        return vectors.astype(np.float32), regions

    def _matches(self, best: Sequence[_Candidate], files: Mask) -> tuple[Match, ...]:
        photos = photos_in(self.snapshot, [each.row for each in best], files)
        return tuple(
            replace(photo, probability=each.probability, similarity=each.similarity, scores=each.scores)
            for photo, each in zip(photos, best, strict=True)
        )
