"""What is answered."""

from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, Field

from smlstm.files import printable

if TYPE_CHECKING:
    from smlstm.explain import Explanation
    from smlstm.search.matches import Match


def photo_id(content: int) -> str:
    """What a photo is called in the API: the hash of its bytes."""
    return f"{content & (1 << 64) - 1:016x}"


def content_of_id(name: str) -> int:
    """The number by which the library knows a photo."""
    value = int(name, 16)
    return value - (1 << 64) if value >= 1 << 63 else value


class Photo(BaseModel):
    """A photo of the library."""

    id: str
    name: str
    path: str
    width: int | None
    height: int | None
    taken: str | None = Field(description="By the camera's clock.")
    copies: list[str] = Field(description="Other files with the same content.")
    probability: float | None = Field(None, description="That it matches what was asked for.")
    similarity: float | None = Field(None, description="The cosine by which it came onto the shortlist.")
    scores: list[float] = Field([], description="The raw score of each sentence.")

    @classmethod
    def of(cls, match: "Match", *, found: bool = True) -> "Photo":
        """A photo out of the library, found or just looked up."""
        return cls(
            id=photo_id(match.content),
            name=printable(match.path.name),
            path=printable(match.path),
            width=match.width,
            height=match.height,
            taken=match.taken.isoformat() if match.taken else None,
            copies=[printable(path) for path in match.copies],
            probability=match.probability,
            similarity=match.similarity if found else None,
            scores=list(match.scores),
        )


class PhotoList(BaseModel):
    """Some photos, and whether there are more."""

    photos: list[Photo]
    total: int
    more: bool


class SearchAnswer(BaseModel):
    """Photos, the best first."""

    photos: list[Photo]
    searched: int = Field(description="How many photos the question was put to.")
    more: bool = Field(description="Whether a larger offset finds further ones.")
    unknown_words: list[str] = Field(description="Words of the question that the model has not learned.")
    read_as: dict[str, str] = Field(description="Misspelt words, and what they were read as.")
    calibrated: bool = Field(description="Whether probabilities were fitted; else they only put photos in order.")


class SearchAnswers(BaseModel):
    """An answer for each question, in their order."""

    answers: list[SearchAnswer]


class Score(BaseModel):
    """How well a photo and a sentence match."""

    photo: str
    sentence: str
    probability: float
    score: float


class ScoreAnswer(BaseModel):
    """A score for each pair, photo by photo."""

    scores: list[Score]
    unknown_words: list[str]
    read_as: dict[str, str] = Field(description="Misspelt words, and what they were read as.")
    calibrated: bool


class Phrase(BaseModel):
    """What a step read: some words in a row."""

    text: str
    first: int = Field(description="The place of its first word among `words`.")
    last: int = Field(description="One behind the place of its last word.")
    share: float = Field(description="Of the step's attention on words.")


class Step(BaseModel):
    """What the model read and where it looked at one step."""

    score: float = Field(description="As it stands after this step.")
    told: str = Field(description="The step in words.")
    phrase: Phrase = Field(description="The phrase that holds most of the attention.")
    place: str = Field(description="Where in the photo it looked most.")
    words: list[float] = Field(description="Attention of each word; sums to 1.")
    regions: list[list[float]] = Field(description="Attention over the photo, rows of a square grid; sums to 1.")


class WordMap(BaseModel):
    """Where a word is by itself."""

    place: str
    told: str = Field(description="The place as a sentence.")
    regions: list[list[float]] = Field(description="Rows of a square grid over the photo; sums to 1.")

    @classmethod
    def of(cls, word: dict[str, Any]) -> "WordMap | None":
        """Of a word of an explanation; None if it has no map to show."""
        return None if word["regions"] is None else cls(**{name: word[name] for name in cls.model_fields})


class Parts(BaseModel):
    """A score as the sum of two parts."""

    steps: float
    whole: float = Field(description="Of photo and sentence as wholes; 0 of a model that does not compare them.")
    told: str = Field(description="Both as a sentence.")


class Explained(BaseModel):
    """What the model read and looked at in a photo and a sentence."""

    photo: str
    sentence: str
    words: list[str]
    function_words: list[bool] = Field(description="Of each word, whether it only holds the sentence together.")
    word_maps: list[WordMap | None] | None = Field(
        description="Of each word, where it is; null of function words, and altogether of a model that cannot say it."
    )
    unknown_words: list[str]
    read_as: dict[str, str] = Field(description="Misspelt words, and what they were read as.")
    dropped_words: int = Field(description="Words beyond the model's limit, cut from the end.")
    probability: float | None = None
    score: float
    parts: Parts = Field(description="How much of the score came from the steps, and how much from the whole.")
    steps: list[Step]

    @classmethod
    def of(cls, seen: "Explanation", photo: str, probability: float | None = None) -> "Explained":
        """An explanation as JSON carries it."""
        content = seen.to_dict()
        steps = [
            Step(
                score=step["score"],
                told=seen.describe(number),
                phrase=Phrase(**step["phrase"]),
                place=step["place"],
                words=[word["saliency"] for word in step["words"]],
                regions=step["regions"],
            )
            for number, step in enumerate(content["steps"])
        ]
        return cls(
            photo=photo,
            sentence=seen.sentence,
            words=list(seen.words),
            function_words=list(seen.quiet),
            word_maps=None if seen.word_maps is None else [WordMap.of(word) for word in content["words"]],
            unknown_words=content["unknown_words"],
            read_as=content["read_as"],
            dropped_words=content["dropped_words"],
            probability=probability,
            score=content["score"],
            parts=Parts(**content["parts"]),
            steps=steps,
        )


class ExplainAnswer(BaseModel):
    """An explanation for each pair, photo by photo."""

    explanations: list[Explained]


class Sentence(BaseModel):
    """A sentence, and how well it matches."""

    sentence: str
    probability: float
    score: float
    explanation: Explained | None = None


class Named(BaseModel):
    """A photo with its sentences, the best first."""

    photo: str
    sentences: list[Sentence]


class NameAnswer(BaseModel):
    """Sentences for each photo."""

    photos: list[Named]
    unknown_words: list[str]
    read_as: dict[str, str] = Field(description="Misspelt words, and what they were read as.")
    calibrated: bool


class Folder(BaseModel):
    """A folder of the library, or one within it."""

    id: str
    path: str
    files: int = Field(description="Files below it that can be found.")


class Indexing(BaseModel):
    """How far taking photos in is."""

    running: bool = False
    done: int = 0
    total: int = 0
    new: int = 0
    skipped: int = 0
    unreachable: int = Field(default=0, description="Files that cannot be reached now; the next run looks again.")
    notes: list[str] = []
    failed: str | None = Field(None, description="Why it stopped, if it did.")


class Model(BaseModel):
    """What the model can do."""

    kind: str = Field(description="Of the reranker; of several that are added up, all of them.")
    attends: bool = Field(description="Whether it can show where it looked.")
    calibrated: bool
    words: int = Field(description="How many words it knows.")


class LibraryState(BaseModel):
    """The library as it is now."""

    library: str
    photos: int
    files: int
    skipped: int = Field(description="Files that cannot be used.")
    folders: list[Folder]
    indexing: Indexing
    model: Model
    version: str


class SkippedFile(BaseModel):
    """A file that cannot be used, and why."""

    path: str
    reason: str


class SkippedFiles(BaseModel):
    """Some files that cannot be used, in the order of their paths."""

    files: list[SkippedFile]
    total: int


class Health(BaseModel):
    """Whether the server is well."""

    status: str
    version: str
