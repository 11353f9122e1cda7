"""What the API does with a library; everything here runs in a worker's thread."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from torch import Tensor

from smlstm import __version__
from smlstm.errors import InputError
from smlstm.explain import Explanation, explain_encoded
from smlstm.explain.picture import gallery
from smlstm.files import printable
from smlstm.matching.batch import Batch
from smlstm.model.ensemble import members_of
from smlstm.search.browsing import newest
from smlstm.search.naming import known_phrases, ranked
from smlstm.vision.shown_photo import SHOWN_SIDE
from smlstm.web import answers
from smlstm.web.answers import Explained, Photo, content_of_id
from smlstm.web.background_indexing import Background
from smlstm.web.photo_scope import Served
from smlstm.web.pictures import Pictures, as_png, read_picture
from smlstm.web.questions import MOST_RESULTS, Naming, Pairs, Question, Where
from smlstm.web.rankings import Rankings
from smlstm.web.read_ahead import ReadAhead
from smlstm.web.work import Queue

if TYPE_CHECKING:
    from smlstm.search import Library
    from smlstm.search.matches import Found
    from smlstm.web.settings import Settings

PICTURES_AT_ONCE, PICTURES_WAITING = 2, 256
MOST_EXPLAINED = 128


class Service:
    """A library with what a server keeps beside it."""

    def __init__(self, library: "Library", settings: "Settings") -> None:
        self.library, self.settings = library, settings
        self.pair = library.pair  # loaded before the first question, so that no two threads load it
        self.served = Served(library, settings.folders)
        self.work = Queue(settings.workers, settings.waiting, settings.waiting_each)
        self.drawing = Queue(PICTURES_AT_ONCE, PICTURES_WAITING, PICTURES_WAITING // 2, "pictures")
        self.pictures, self.rankings = Pictures(), Rankings()
        self.read_ahead = ReadAhead(self.pair.read)
        self.indexing = Background(library)

    def close(self) -> None:
        """Stop indexing, and let what is under way finish."""
        self.indexing.stop()
        self.work.close()
        self.drawing.close()

    @cached_property
    def phrases(self) -> list[str]:
        """What photos are named with if nothing else is given."""
        return known_phrases(self.pair)

    def search(self, question: Question) -> answers.SearchAnswer:
        """Photos that match, the best first."""
        similar = None if question.similar is None else content_of_id(question.similar)
        if similar is not None:
            self.served.match(similar)
        chosen = self.served.filter(question)

        def ask(start: int, end: int) -> "Found":
            self.read_ahead.read(question.sentences)
            return self.library.search(
                question.sentence,
                k=end - start,
                plus=question.plus,
                minus=question.minus,
                similar=similar,
                minimum=question.minimum,
                chosen=chosen,
                shortlist=MOST_RESULTS,
                part=(start, end),
            )

        # Without a sentence photos are ranked by a cosine, and those below 0 are left out.
        countable = not question.minimum and bool(question.sentence or question.plus or question.minus)
        key = (question.model_copy(update={"offset": 0, "limit": 1}), self.library.snapshot().versions)
        matches, more, found = self.rankings.get(key, ask, countable).part(question.offset, question.limit)
        return answers.SearchAnswer(
            photos=[Photo.of(match) for match in matches],
            searched=found.searched,
            more=more,
            unknown_words=list(found.unknown),
            read_as=dict(found.read_as),
            calibrated=found.calibrated,
        )

    def newest(self, where: Where, offset: int, limit: int) -> answers.PhotoList:
        """Photos from the newest on."""
        found, total = newest(self.library.snapshot(), self.served.filter(where), offset, limit)
        photos = [Photo.of(match, found=False) for match in found]
        return answers.PhotoList(photos=photos, total=total, more=offset + len(photos) < total)

    def photo(self, name: str) -> Photo:
        """What is known of a photo."""
        return Photo.of(self.served.match(content_of_id(name)), found=False)

    def picture(self, name: str, size: str) -> bytes:
        """A photo as JPEG."""
        content = content_of_id(name)
        return self.pictures.get(content, self.served.paths(content), size)

    def score(self, pairs: Pairs) -> answers.ScoreAnswer:
        """The score of every photo with every sentence."""
        self.pair.reranker.tokens(pairs.sentences)
        _, vectors, images = self.served.encoded(pairs.photos)
        return self.scored(pairs.photos, pairs.sentences, self.pair.score(vectors, images, pairs.sentences))

    def scored(self, names: Sequence[str], sentences: Sequence[str], scores: Tensor) -> answers.ScoreAnswer:
        """Scores of all pairs, M x N, as they are answered."""
        found = [
            answers.Score(photo=photo, sentence=text, probability=self.probability(score, text), score=score)
            for photo, row in zip(names, scores.tolist(), strict=True)
            for text, score in zip(sentences, row, strict=True)
        ]
        return answers.ScoreAnswer(
            scores=found,
            unknown_words=self.pair.unknown_words(sentences),
            read_as=self.pair.read_as(sentences),
            calibrated=self.pair.calibrated,
        )

    def explain(self, pairs: Pairs) -> answers.ExplainAnswer:
        """What the reranker looked at, for every photo with every sentence."""
        self.must_attend()
        self.pair.reranker.tokens(pairs.sentences)
        _, vectors, images = self.served.encoded(pairs.photos)
        scores = self.pair.score(vectors, images, pairs.sentences).tolist()
        found = [
            self.explained(images, number, text, photo, scores[number][place])
            for number, photo in enumerate(pairs.photos)
            for place, text in enumerate(pairs.sentences)
        ]
        return answers.ExplainAnswer(explanations=found)

    def explanation_picture(self, name: str, sentence: str) -> bytes:
        """What the reranker looked at, as a PNG."""
        self.must_attend()
        self.pair.reranker.tokens([sentence])
        (match,), _, images = self.served.encoded([name])
        photo = read_picture(match.content, [match.path, *match.copies], SHOWN_SIDE)
        seen = replace(self._explanation(images, 0, sentence), name=printable(match.path.name), photo=photo)
        return as_png(gallery([seen]))

    def name(self, naming: Naming) -> answers.NameAnswer:
        """The sentences that match photos of the library best."""
        _, vectors, images = self.served.encoded(naming.photos)
        return self.named(
            vectors, images, naming.photos, sentences=naming.sentences, k=naming.k, explain=naming.explain
        )

    def named(
        self,
        vectors: Tensor,
        images: Batch,
        names: Sequence[str],
        *,
        sentences: Sequence[str] | None,
        k: int,
        explain: bool,
    ) -> answers.NameAnswer:
        """The sentences that match encoded photos best."""
        if explain:
            self.must_attend()
            if k * len(names) > MOST_EXPLAINED:
                raise InputError(f"at most {MOST_EXPLAINED} pairs can be explained at once, not {k * len(names)}")
        choice = list(dict.fromkeys(sentences)) if sentences else self.phrases
        self.pair.reranker.tokens(choice)
        scores = self.pair.score(vectors, images, choice)
        photos = []
        for number, (name, row) in enumerate(zip(names, scores, strict=True)):
            photos.append(
                answers.Named(
                    photo=name,
                    sentences=[
                        answers.Sentence(
                            sentence=found.sentence,
                            probability=found.probability,
                            score=found.score,
                            explanation=self.explained(images, number, found.sentence, name, found.score)
                            if explain
                            else None,
                        )
                        for found in ranked(self.pair, row, choice)[:k]
                    ],
                )
            )
        own = list(sentences or ())
        return answers.NameAnswer(
            photos=photos,
            unknown_words=self.pair.unknown_words(own),
            read_as=self.pair.read_as(own),
            calibrated=self.pair.calibrated,
        )

    def explained(self, images: Batch, number: int, sentence: str, name: str, score: float) -> Explained:
        """What the reranker looked at in one of some encoded photos."""
        return Explained.of(self._explanation(images, number, sentence), name, self.probability(score, sentence))

    def _explanation(self, images: Batch, number: int, sentence: str) -> Explanation:
        return explain_encoded(self.pair.reranker, images.select(slice(number, number + 1)), sentence)

    def must_attend(self) -> None:
        """Refuse what only a model with attention can do."""
        if not self.pair.reranker.attends:
            kind = self.pair.reranker.kind
            raise InputError(f"the reranker ({kind}) has no attention: it cannot show where it looked")

    def probability(self, score: float, sentence: str) -> float:
        """The share of pairs of this score and sentences like this one that match."""
        return self.pair.calibration.probability(score, sentence)

    def state(self) -> answers.LibraryState:
        """The library as it is now."""
        reranker = self.pair.reranker
        # Before anything is counted: once it says that indexing has ended, the counts are those of the end.
        indexing = self.indexing.state()
        return answers.LibraryState(
            library=printable(self.library.folder),
            photos=self.served.photo_count(),
            files=self.served.file_count(),
            skipped=self.served.skipped(0, 0).total,
            folders=[folder for folder, _ in self.served.folders()],
            indexing=indexing,
            model=answers.Model(
                kind=" + ".join(matcher.kind for matcher in members_of(reranker)),
                attends=reranker.attends,
                calibrated=self.pair.calibrated,
                words=len(reranker.vocabulary),
            ),
            version=__version__,
        )
