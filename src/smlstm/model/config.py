"""Symbols and sizes.

| symbol | field | paper |
|---|---|---|
| I | `regions` of the preset; no weight depends on it | 196 |
| F, D | `region_width`, `context_width` | 512, 4096 |
| J | `max_words` | 50 |
| G, E | `word_width`, `sentence_width` | 1024, 1024 |
| H, T | `hidden_width`, `steps` | 1024, 3 |
| m, lambda | `margin`, `regulariser` of the objective | 0.2, 100 |
| mismatched pairs a matched pair | `negatives` of the objective | 100 |

What the paper leaves open is a field here too, with the reason for its default.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from smlstm.matching.matcher import MatcherConfig

# The upper bound keeps a tampered configuration from asking for all memory there is.
Positive = Annotated[int, Field(gt=0, le=1 << 16)]
Share = Annotated[float, Field(ge=0, lt=1)]
Pooling = Literal["last", "max", "mean"]


class SMLSTMConfig(MatcherConfig):
    """An sm-LSTM: its variant, its readings of the paper, its sizes."""

    variant: Literal["mean", "att", "ctx", "full"] = Field(
        default="full",
        description="what stands in for the attended instances, and whether attention has context",
    )
    modulation: Literal["separate", "joint", "gated", "paired"] = Field(
        default="joint",
        description="how context enters attention; `separate` is the print, and degenerate; with `paired` the image is "
        "searched for what the sentence attends to at the same step",
    )
    comparison: Literal["additive", "product"] = Field(
        default="product", description="how two attended instances are compared; the paper's is `additive`"
    )
    global_score: bool = Field(
        default=False,
        description="add the cosine of the global contexts (MNLM's score) to what the steps say; not in the paper",
    )
    image_pooling: Literal["context", "max"] = Field(
        default="context",
        description="x of `global_score` is made of the `context` m alone, as MNLM's is, or also of each unit's `max` "
        "over all regions: what fills a small part of the image has a short way to x",
    )
    instance_score: bool = Field(
        default=False,
        description="add the mean cosine of the attended instances to what the steps say; not in the paper",
    )
    term_weights: tuple[Annotated[float, Field(gt=0, allow_inf_nan=False)], ...] | None = Field(
        default=None,
        description="how much each term counts in the score, in their order: what the steps say, the global score of "
        "each reader, the instance score; None: all alike. Each term is trained by its own loss, so that weights can "
        "be chosen afterwards",
    )
    embedding_width: Positive = Field(default=300, description="width of a word vector, open in the paper")
    words: Literal["blstm", "vectors", "phrases"] = Field(
        default="blstm",
        description="w_j is the BLSTM's state at word j, as in the paper, or the word's vector itself, which is enough "
        "where a language model made it of the whole sentence; with `phrases` the mean of a noun phrase's vectors, so "
        "that steps attend to phrases",
    )
    context_words: Literal["same", "both"] = Field(
        default="same",
        description="n is made of the vectors that words are made of; or, with `both`, where those come from a "
        "language model, of vectors learned for it, one a word of the vocabulary, and global_score also compares "
        "what the language model's words say on average: two ways to read a sentence know more than one",
    )
    word_width: Positive = Field(description="G, twice the BLSTM's hidden width; without a BLSTM the vector's width")
    sentence_width: Positive = Field(description="E, width of the sentence's global context n")
    sentence_pooling: Pooling = Field(
        default="last",
        description="n is the LSTM's `last` state, as in the paper, the `max` of all its states, or, without an LSTM, "
        "made of the `mean` of the word vectors",
    )
    attention_width: Positive = Field(description="units of the three-way MLP, open in the paper")
    similarity_width: Positive = Field(description="width of s_t, open in the paper")
    hidden_width: Positive = Field(description="H, width of the aggregating LSTM")
    steps: Positive = Field(default=3, description="T")
    dropout: Share = Field(default=0.0, description="on word vectors and on s_t, in training; the paper names none")
    feature_dropout: Share = Field(
        default=0.0,
        description="share of the CNN's channels that the steps do without in training, drawn for each image, the same "
        "for all of its regions and again for m: a mean over regions would undo what falls on each of them apart",
    )

    @model_validator(mode="after")
    def _word_width_fits(self) -> "SMLSTMConfig":
        if self.words == "blstm" and self.word_width % 2:
            raise ValueError(f"word_width is {self.word_width}, but two directions must share it evenly")
        if self.context_words == "both" and not self.language_model:
            raise ValueError("context_words is `both`, but without language_model all words are learned: leave it out")
        if self.context_words == "both" and not self.global_score:
            raise ValueError("context_words is `both`, but only global_score has use for it: set it, or leave this out")
        if self.image_pooling == "max" and not self.global_score:
            raise ValueError("image_pooling is `max`, but only global_score has use for it: set it, or leave this out")
        if self.term_weights is not None and len(self.term_weights) != self.terms:
            raise ValueError(f"term_weights has {len(self.term_weights)} numbers, but the score has {self.terms} terms")
        vector_width = self.read_width if self.language_model else self.embedding_width
        if self.words != "blstm" and self.word_width != vector_width:
            raise ValueError(f"word_width is {self.word_width}, but words are vectors of {vector_width}: set it so")
        return self

    @property
    def readers(self) -> int:
        """How many global scores there are."""
        return (2 if self.context_words == "both" else 1) if self.global_score else 0

    @property
    def terms(self) -> int:
        """Of how many terms the score is the sum."""
        return 1 + self.readers + self.instance_score


class MNLMConfig(MatcherConfig):
    """An MNLM (Kiros et al. 2014): linear image embedding, LSTM sentence embedding, one space."""

    embedding_width: Positive = Field(default=300, description="width of a word vector")
    sentence_width: Positive = Field(description="E, width of the joint space and of the sentence LSTM")
    sentence_pooling: Pooling = Field(
        default="last",
        description="v is made of the LSTM's `last` state, as Kiros et al. do, of the `max` of all its states, or, "
        "without an LSTM, of the `mean` of the word vectors",
    )
    dropout: Share = Field(default=0.0, description="on m and on word vectors, in training")


class ObjectiveConfig(BaseModel):
    """The structured objective and its regulariser."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    margin: float = Field(default=0.2, gt=0, description="m")
    negatives: Positive | None = Field(
        default=100,
        description="mismatched sentences for each matched pair, and as many mismatched images; None: all there are",
    )
    form: Literal["sum", "hardest", "contrast"] = Field(
        default="sum",
        description="over all mismatched pairs (the paper), the hardest each way (VSE++), or the share of the matched "
        "pair in a softmax (InfoNCE), which weighs mismatched pairs by how wrong they are",
    )
    temperature: float = Field(
        default=0.05, gt=0, description="of `contrast`: scores that differ by less are hardly told apart"
    )
    regulariser: float = Field(
        default=100.0, ge=0, description="lambda; squares are averaged over the candidates of an image or sentence"
    )


@dataclass(frozen=True)
class Preset:
    """A named set of sizes: the model, the objective, and the grid that goes with them."""

    model: SMLSTMConfig
    baseline: MNLMConfig
    objective: ObjectiveConfig
    regions: int


def paper() -> Preset:
    """The paper's values, on VGG-19; `joint` and `additive` are how a reproduction should read its equations."""
    return Preset(
        model=SMLSTMConfig(
            region_width=512,
            context_width=4096,
            max_words=50,
            modulation="joint",
            comparison="additive",
            word_width=1024,
            sentence_width=1024,
            attention_width=1024,
            similarity_width=1024,
            hidden_width=1024,
            steps=3,
        ),
        baseline=MNLMConfig(region_width=512, context_width=4096, max_words=50, sentence_width=1024),
        objective=ObjectiveConfig(margin=0.2, negatives=100, regulariser=100.0),
        regions=196,
    )


def compact(region_width: int = 1280, context_width: int = 1280, regions: int = 49) -> Preset:
    """A size that two CPU cores can train; by default for the 7x7 grid of an EfficientNet-Lite."""
    return Preset(
        model=SMLSTMConfig(
            region_width=region_width,
            context_width=context_width,
            max_words=30,
            modulation="gated",
            comparison="product",
            word_width=512,
            sentence_width=512,
            attention_width=256,
            similarity_width=512,
            hidden_width=256,
            steps=3,
        ),
        baseline=MNLMConfig(region_width=region_width, context_width=context_width, max_words=30, sentence_width=512),
        objective=ObjectiveConfig(margin=0.2, negatives=100, regulariser=1.0),
        regions=regions,
    )
