"""What can be asked, with its limits."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from smlstm.search.query import split_term

MOST_RESULTS = 1000
PhotoId = Annotated[str, Field(pattern=r"^[0-9a-f]{16}$", description="A photo, as other answers name it.")]
Sentence = Annotated[str, Field(min_length=1, max_length=1000)]
Sentences = Annotated[list[Sentence], Field(min_length=1, max_length=100)]
Photos = Annotated[list[PhotoId], Field(min_length=1, max_length=32)]
Date = Annotated[str, Field(max_length=10, examples=["2024", "2024-05", "2024-05-31"])]


class _Asked(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Where(_Asked):
    """Which photos may be found; what is not given lets all through."""

    folders: tuple[PhotoId, ...] = Field((), max_length=16, description="Only below these folders of the library.")
    paths: tuple[Annotated[str, Field(min_length=1, max_length=200)], ...] = Field(
        (), max_length=8, description="Only paths with this part, or like this pattern if it has *, ? or [."
    )
    since: Date | None = Field(None, description="Taken in this year, month or day, or later.")
    until: Date | None = Field(None, description="Taken in this year, month or day, or earlier.")


class Question(Where):
    """A search: by a sentence, by a photo, or by both."""

    sentence: Sentence | None = Field(None, description="What the photo shows.", examples=["a dog on the beach"])
    plus: tuple[Sentence, ...] = Field((), max_length=8, description="Should fit too; `0.5:at sunset` counts half.")
    minus: tuple[Sentence, ...] = Field((), max_length=8, description="Should not fit.")
    similar: PhotoId | None = Field(None, description="Among the photos most like this one.")
    minimum: float = Field(0.0, ge=0, le=1, description="Least match probability; without a sentence, similarity.")
    offset: int = Field(0, ge=0, le=MOST_RESULTS, description="How many of the best to leave out.")
    limit: int = Field(24, ge=1, le=100, description="How many photos.")

    @property
    def sentences(self) -> list[str]:
        """All that is to be read for it."""
        asked = [*([] if self.sentence is None else [self.sentence]), *self.plus, *self.minus]
        return [split_term(each)[1] for each in asked]


class Questions(_Asked):
    """Several searches at once."""

    questions: list[Question] = Field(min_length=1, max_length=16)


class Pairs(_Asked):
    """Photos of the library and sentences, each with each."""

    photos: Photos
    sentences: Sentences


class FewPairs(Pairs):
    """The same, but not as many: an explanation is long."""

    photos: Annotated[list[PhotoId], Field(min_length=1, max_length=8)]
    sentences: Annotated[list[Sentence], Field(min_length=1, max_length=8)]


class Naming(_Asked):
    """Photos of the library to find sentences for."""

    photos: Photos
    sentences: Sentences | None = Field(None, description="To choose from, if not the phrases that come with smlstm.")
    k: int = Field(5, ge=1, le=100, description="How many sentences.")
    explain: bool = Field(False, description="Also tell what the model looked at.")


class Reindexing(_Asked):
    """Bring the library in step with its folders."""

    retry: bool = Field(False, description="Try files again that could not be used before.")
