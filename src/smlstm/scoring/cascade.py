"""The cascade: a cheap score draws up a shortlist, a costly matcher scores it.

For each image its best k sentences, for each sentence its best k images, by the cheap score; the union of both
is scored by the costly matcher, so that one matrix serves annotation and retrieval. The cheap score is that of another
matcher, an MNLM as a rule, or the costly one's own global score, whose vectors it needs anyway.

The rest of the matrix keeps the order of the cheap scores, below everything that was scored:

    score of a pair that was not scored = lowest - 1 - (highest cheap score - its cheap score)

`lowest` is the lowest score of the whole shortlist. This is one increasing function for the whole matrix, not one
a row or column: hence in every row and in every column alike, pairs that were scored come first, in the order of their
scores, and the others follow in the order of their cheap scores. Ranks remain ranks; their values are not
comparable with an exhaustive matrix beyond the shortlist.
"""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import torch

from smlstm.data.features import Rows
from smlstm.errors import ConfigurationError, InputError
from smlstm.matching.batch import Batch
from smlstm.matching.matcher import Matcher
from smlstm.model import SMLSTM
from smlstm.scoring.all_pairs import MEMORY, Target, image_blocks, open_output
from smlstm.scoring.images import Images, ImageSource, image_source
from smlstm.scoring.job import Counter, Engine, Job, choose_tile, scoring, slices, to_numpy
from smlstm.scoring.matrix import InMemory, Output, Scores
from smlstm.scoring.precision import Precision
from smlstm.scoring.progress import ProgressCallback
from smlstm.scoring.sentences import SentenceGroups, Sentences, check_sentences
from smlstm.scoring.shortlist import (
    CheapScores,
    GlobalScores,
    MatcherScores,
    Shortlist,
    ShortlistRecall,
    shortlist_from,
)

__all__ = ["Cascade", "Shortlist", "ShortlistRecall", "score_pairs"]

_PHASE = "shortlist"


class Cascade:
    """A shortlist by one matcher (MNLM, say), scored by another (sm-LSTM); takes a matcher's place in `score_all`.

    `shortlister`: None for the costly matcher's own global score, which an sm-LSTM with `global_score` has.
    `k`: best sentences for each image. `k_images`: best images for each sentence; default: as many.
    `weights`: of the costly and of the cheap score in a scored pair's sum; default: the costly one alone.
    """

    def __init__(
        self,
        shortlister: Matcher | None,
        matcher: Matcher,
        k: int = 100,
        k_images: int | None = None,
        weights: tuple[float, float] = (1.0, 0.0),
    ) -> None:
        k_images = k if k_images is None else k_images
        if min(k, k_images) < 1:
            raise ConfigurationError(f"a shortlist of {min(k, k_images)} is empty: k must be at least 1")
        if shortlister is None and not (isinstance(matcher, SMLSTM) and matcher.config.global_score):
            raise ConfigurationError(
                f"this {matcher.kind} has no global score to draw up a shortlist with: give an MNLM as the "
                "shortlister, or an sm-LSTM that was trained with global_score"
            )
        self.shortlister, self.matcher = shortlister, matcher
        self.k, self.k_images, self.weights = k, k_images, weights

    def shortlist(
        self,
        images: Images,
        sentences: Sentences,
        *,
        precision: Precision = "auto",
        device: torch.device | str | None = None,
        memory: int = MEMORY,
    ) -> Shortlist:
        """The pairs to score; its `recall` says what leaving out the others costs."""
        check_sentences(sentences)
        with scoring(self._lister):
            engine = Engine(self._lister, precision, device)
            return self._draw(engine, image_source(images), sentences, memory, keep=False)

    @property
    def _lister(self) -> Matcher:
        return self.matcher if self.shortlister is None else self.shortlister

    def _draw(self, engine: Engine, source: ImageSource, sentences: Sentences, memory: int, *, keep: bool) -> Shortlist:
        cheap: CheapScores
        if self.shortlister is None:
            cheap = GlobalScores(engine, source, sentences, memory, keep)
        else:
            cheap = MatcherScores(engine, source, sentences, memory)
        return shortlist_from(cheap, self.k, self.k_images)

    def score_all(
        self,
        images: Images,
        sentences: Sentences,
        *,
        out: Target = None,
        tile: tuple[int, int] | None = None,
        precision: Precision = "auto",
        device: torch.device | str | None = None,
        memory: int = MEMORY,
        progress: ProgressCallback | None = None,
        shortlist: Shortlist | None = None,
    ) -> Scores:
        """As `smlstm.scoring.score_all`; a shortlist that was drawn up already need not be again."""
        check_sentences(sentences)
        source = image_source(images)
        if shortlist is None:
            with scoring(self._lister):
                shortlist = self._draw(Engine(self._lister, precision, device), source, sentences, memory, keep=True)
        cheap = shortlist.cheap
        if cheap.shape != (len(source), len(sentences)):
            raise InputError(f"this shortlist is of {cheap.shape} images and sentences, not of these")
        kept = cheap.kept if isinstance(cheap, GlobalScores) else None
        with scoring(self.matcher, cheap.engine.given):
            engine = Engine(self.matcher, precision, device) if kept is None else cheap.engine
            settings = f"cascade {type(cheap).__name__} {self.k} {self.k_images} {self.weights}"
            output = open_output(out, source, sentences, engine, cheap.engine, settings=settings)
            try:
                size = choose_tile(tile, engine.scorer.pair_width)
                if kept is None:
                    groups = SentenceGroups.for_chosen(engine, sentences, memory // 2)
                    job = Job(engine, source, sentences, output, size, memory)
                else:
                    groups = kept.groups
                    job = Job(engine, kept.source, sentences, output, size, memory - 2 * kept.image_bytes)
                self._score(job, groups, shortlist, progress)
                _fill(output, shortlist)
                return output.finish()
            finally:
                output.close()

    def _score(self, job: Job, groups: SentenceGroups, shortlist: Shortlist, progress: ProgressCallback | None) -> None:
        """Scores of the shortlist, and NaN where the cheap scores will go."""
        rows, columns, output = shortlist.rows, shortlist.columns, job.output
        counter = Counter(len(rows), int(output.done(_PHASE)[rows].sum()), progress)
        for start, stop, parts in _chosen(job, groups, rows, columns):
            output.scores[start:stop] = np.nan
            for pairs, scores in parts:
                total = self.weights[0] * scores + self.weights[1] * shortlist.scores[pairs]
                if not np.isfinite(total).all():
                    raise InputError("a score is not a finite number: are the weights of the model damaged?")
                output.scores[rows[pairs], columns[pairs]] = total
                counter.add(len(pairs))
            output.record(_PHASE, start, stop)


def _fill(output: Output, shortlist: Shortlist) -> None:
    """Put the rest below the shortlist, in the order of the cheap scores."""
    if not len(shortlist):
        return
    lowest = np.inf
    images, block = len(output.scores), shortlist.cheap.block
    for part in slices(images, block):
        first, last = np.searchsorted(shortlist.rows, [part.start, part.stop])
        found = output.scores[shortlist.rows[first:last], shortlist.columns[first:last]]
        lowest = min(lowest, float(np.nanmin(found, initial=np.inf)))
    shift = output.remember("lowest", lowest) - 1 - shortlist.highest
    start, stop = output.missing("rest", 0, block)
    while start < stop:
        scores = output.scores[start:stop]
        rest = np.isnan(scores)
        scores[rest] = shortlist.cheap.rows(start, stop).numpy()[rest] + np.float32(shift)
        output.record("rest", start, stop)
        start, stop = output.missing("rest", stop, block)


def score_pairs(
    matcher: Matcher,
    images: Images,
    sentences: Sentences,
    pairs: npt.ArrayLike,
    *,
    tile: tuple[int, int] | None = None,
    precision: Precision = "auto",
    device: torch.device | str | None = None,
    memory: int = MEMORY,
    progress: ProgressCallback | None = None,
) -> Scores:
    """Scores of some pairs only: rows of (image, sentence) positions, in any order; P. Reads only their images."""
    check_sentences(sentences)
    source, chosen = image_source(images), np.asarray(pairs, dtype=np.int64).reshape(-1, 2)
    if len(chosen) and not (
        chosen.min() >= 0 and chosen[:, 0].max() < len(source) and chosen[:, 1].max() < len(sentences)
    ):
        raise InputError(f"a pair names an image or sentence outside the {len(source)} and {len(sentences)} given")
    order = np.argsort(chosen[:, 0], kind="stable")
    used, rows = np.unique(chosen[order, 0], return_inverse=True)
    result = np.empty(len(chosen), np.float32)
    counter = Counter(len(chosen), 0, progress)
    if not len(chosen):
        return result
    with scoring(matcher):
        engine = Engine(matcher, precision, device)
        size = choose_tile(tile, engine.scorer.pair_width)
        job = Job(engine, source.subset(used), sentences, InMemory((len(used), 0)), size, memory)
        groups = SentenceGroups.for_chosen(engine, sentences, memory // 2)
        for _, _, parts in _chosen(job, groups, rows, chosen[order, 1]):
            for places, scores in parts:
                result[order[places]] = scores
                counter.add(len(places))
    return result


def _chosen(
    job: Job, groups: SentenceGroups, rows: Rows, columns: Rows
) -> Iterator[tuple[int, int, Iterator[tuple[Rows, Scores]]]]:
    """Chosen pairs (by ascending row) in blocks of images: where each part of a block stands, and its scores."""
    engine, count = job.engine, len(job.sentences)
    group_of, place_in = np.empty(count, np.int64), np.empty(count, np.int64)
    for number, members in enumerate(groups.columns):
        group_of[members.numpy()], place_in[members.numpy()] = number, np.arange(len(members))

    def score(block: Batch, start: int, pairs: Rows) -> Iterator[tuple[Rows, Scores]]:
        group = group_of[columns[pairs]]
        for number, (_, prepared) in enumerate(groups):
            members = pairs[group == number]
            # Half a tile: every pair has its own copy of its sentence's words.
            for part in slices(len(members), max(1, job.tile.pairs // 2)):
                some = members[part]
                where = torch.from_numpy(rows[some] - start), torch.from_numpy(place_in[columns[some]])
                found = engine.scorer.chosen(block, prepared, *(index.to(engine.device) for index in where))
                yield some, to_numpy(found).numpy()

    for start, stop, block in image_blocks(job, _PHASE, groups, tiles=16):
        first, last = np.searchsorted(rows, [start, stop])
        yield start, stop, score(block, start, np.arange(first, last))
