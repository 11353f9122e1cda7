"""The one interface: everything that scores images against sentences is a `Matcher`.

Encode images, encode sentences, score all pairs of two encoded batches, and, where the model attends, return
the saliency maps of chosen pairs. Evaluation, search and explanation know nothing else.

What happens to unusual input, for every matcher:

- a sentence without any word: `InputError`, naming its position;
- a sentence of only unknown words: scored; each word uses the vector of the unknown word, or what a language model
  makes of it, and `matcher.unknown_words` tells which they are;
- a misspelt word: read as the known word that was meant, and `matcher.read_as` tells so;
- a sentence longer than the limit J: its first J words count, `Vocabulary.encode` reports how many were dropped;
- NaN or infinite features: `InputError`, naming the image;
- regions or context of another width than the model's F and D: `InputError`, naming both;
- another number of regions than in training: accepted, since no weight depends on I.
"""

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import ClassVar, Literal

import torch
from pydantic import BaseModel, ConfigDict, Field, model_validator
from torch import Tensor, nn

from smlstm.errors import InputError
from smlstm.matching.batch import Batch, ImageFeatures, Saliency, Tokens
from smlstm.text import Vocabulary, tokenise
from smlstm.text.language_model import WIDTH, language_model
from smlstm.text.word_groups import phrase_numbers


class MatcherConfig(BaseModel):
    """What every matcher must know of its inputs; each kind of matcher adds its own fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    region_width: int = Field(gt=0, le=1 << 16, description="F, width of a region a_i")
    context_width: int = Field(gt=0, le=1 << 16, description="D, width of the image's global context m")
    regions: int | None = Field(
        default=None, gt=0, le=1 << 16, description="I, regions an image had in training; no weight depends on it"
    )
    max_words: int = Field(default=50, gt=0, le=1 << 16, description="J, words of a sentence that count")
    language_model: Literal["", "minilm"] = Field(
        default="",
        description="`minilm`: word vectors are those of a frozen language model that has read the whole sentence; "
        "otherwise they are learned, one a word of the vocabulary, as in the paper",
    )
    own_pieces: bool = Field(
        default=False,
        description="beside what the language model makes of a word in its sentence stands what the word is by itself, "
        "the mean of its pieces as the model first sees them: an attended word then means itself",
    )
    backbone: str = Field(
        default="",
        description="the backbone whose features it was trained on, as the feature store names it; with `+` and the "
        "beginning of a hash, one that was tuned",
    )

    @model_validator(mode="after")
    def _pieces_are_the_language_models(self) -> "MatcherConfig":
        if self.own_pieces and not self.language_model:
            raise ValueError("own_pieces is set, but only a language model has pieces: set language_model too")
        return self

    @property
    def read_width(self) -> int:
        """Width of a word's vector as the language model gives it."""
        return 2 * WIDTH if self.own_pieces else WIDTH


class Matcher(nn.Module, ABC):
    """Scores images against sentences."""

    kind: ClassVar[str]
    config_type: ClassVar[type[MatcherConfig]]
    attends: ClassVar[bool] = False
    """Whether `attend` has maps to give."""
    reads_phrases: ClassVar[bool] = False
    """Whether it wants to know which words name one thing."""

    def __init__(self, config: MatcherConfig, vocabulary: Vocabulary) -> None:
        super().__init__()
        self.config = config
        self.vocabulary = vocabulary
        self.tuned: Mapping[str, Tensor] | None = None
        """What was tuned of the backbone whose features it reads, where that is not as published."""

    def tokens(self, sentences: Sequence[str]) -> Tokens:
        """Sentences as rows of the vocabulary, padded to the longest; no language model has read them yet."""
        refuse_single_sentence(sentences)
        rows = [self.vocabulary.encode_words(words).ids for words in self.words_of(sentences)]
        empty = [position for position, row in enumerate(rows) if not row]
        if empty:
            raise InputError(
                f"sentence {empty[0]} has no words: {sentences[empty[0]]!r}; give each sentence at least one word"
            )
        longest = max((len(row) for row in rows), default=1)
        ids = torch.tensor([row + [0] * (longest - len(row)) for row in rows], dtype=torch.long)
        lengths = torch.tensor([len(row) for row in rows], dtype=torch.long)
        device = next(self.parameters()).device
        phrases = None
        if self.reads_phrases:
            numbers = [phrase_numbers(words) for words in self.words_of(sentences)]
            phrases = torch.tensor([row + [0] * (longest - len(row)) for row in numbers], dtype=torch.long)
            phrases = phrases.reshape(len(rows), longest).to(device)
        return Tokens(ids.reshape(len(rows), longest).to(device), lengths.to(device), phrases=phrases)

    def encode_images(self, features: ImageFeatures) -> Batch:
        """Everything about M images that does not depend on a sentence."""
        self._check_features(features)
        weight = next(self.parameters())  # features are stored in half precision, often on another device
        regions, context = (tensor.to(weight.device, weight.dtype) for tensor in (features.regions, features.context))
        return self._encode_images(ImageFeatures(regions, context))

    def encode_sentences(self, sentences: Sequence[str] | Tokens) -> Batch:
        """Everything about N sentences that does not depend on an image."""
        if isinstance(sentences, Tokens):
            self._check_tokens(sentences)
            tokens = sentences
        else:
            tokens = self.tokens(sentences)
            if self.config.language_model:
                tokens = replace(tokens, vectors=self._read(sentences))
        if tokens.vectors is not None:
            weight = next(self.parameters())
            tokens = replace(tokens, vectors=tokens.vectors.to(weight.device, weight.dtype))
        return self._encode_tokens(tokens)

    def words_of(self, sentences: Sequence[str]) -> list[list[str]]:
        """The words of each sentence that count, misspelt ones as they were meant."""
        return [
            [self._meant(word) or word for word in tokenise(sentence)[: self.config.max_words]]
            for sentence in sentences
        ]

    def read_as(self, sentences: Sequence[str]) -> dict[str, str]:
        """Misspelt words of some sentences, and what they are read as."""
        words = dict.fromkeys(word for sentence in sentences for word in tokenise(sentence)[: self.config.max_words])
        return {word: meant for word in words if (meant := self._meant(word)) is not None}

    def unknown_words(self, sentences: Sequence[str]) -> list[str]:
        """Distinct words of some sentences that it has not learned, in order of appearance."""
        seen = (word for words in self.words_of(sentences) for word in self.vocabulary.encode_words(words).unknown)
        return list(dict.fromkeys(seen))

    def _meant(self, word: str) -> str | None:
        if word in self.vocabulary or (self.config.language_model and language_model().knows(word)):
            return None
        return self.vocabulary.meant(word)

    def _read(self, sentences: Sequence[str]) -> Tensor:
        """Word vectors of a language model, zero on padding; N, J, width."""
        model, words = language_model(), self.words_of(sentences)
        read = model.read(words)
        longest = max(map(len, read), default=1)
        vectors = torch.zeros(len(read), longest, self.config.read_width, dtype=torch.float16)
        for place, each in enumerate(read):
            vectors[place, : len(each), :WIDTH] = each
            if self.config.own_pieces:
                vectors[place, : len(each), WIDTH:] = model.own(words[place])
        return vectors

    @abstractmethod
    def _encode_images(self, features: ImageFeatures) -> Batch: ...

    @abstractmethod
    def _encode_tokens(self, tokens: Tokens) -> Batch: ...

    @abstractmethod
    def score(self, images: Batch, sentences: Batch) -> Tensor:
        """Scores of all pairs of two encoded batches; M, N."""

    def attend(self, images: Batch, sentences: Batch, pairs: Tensor) -> Saliency:
        """Saliency maps of chosen pairs: rows of (image, sentence) positions; P, 2."""
        if not self.attends:
            raise InputError(f"a {self.kind} matcher has no attention: it has no saliency maps to show")
        return self._attend(images.select(pairs[:, 0]), sentences.select(pairs[:, 1]))

    def _attend(self, images: Batch, sentences: Batch) -> Saliency:
        """Saliency maps of the pairs (images[k], sentences[k])."""
        raise AssertionError(f"{type(self).__name__} says that it attends but gives no maps")

    def _check_features(self, features: ImageFeatures) -> None:
        for name, tensor, width in (
            ("region_width (F)", features.regions, self.config.region_width),
            ("context_width (D)", features.context, self.config.context_width),
        ):
            if tensor.shape[-1] != width:
                raise InputError(
                    f"features have {name} {tensor.shape[-1]}, this model was made for {width}: "
                    "were they extracted with another backbone?"
                )
            finite = torch.isfinite(tensor.flatten(1).sum(1, dtype=torch.float32))
            if not finite.all():
                bad = int((~finite).nonzero()[0, 0])
                raise InputError(f"features of image {bad} are not finite numbers: extract them again")

    def _check_tokens(self, tokens: Tokens) -> None:
        if self.config.language_model and tokens.vectors is None:
            raise InputError("this model reads sentences with a language model: give them as strings, not as tokens")
        if self.reads_phrases and tokens.phrases is None:
            raise InputError("this model wants to know a sentence's phrases: give it as a string, not as tokens")
        if len(tokens) == 0:
            return
        shortest, longest = (int(length) for length in torch.aminmax(tokens.lengths))
        most = min(tokens.ids.shape[1], self.config.max_words)
        if shortest < 1 or longest > most:
            raise InputError(
                f"tokens have sentences of {shortest} to {longest} words, this model (max_words "
                f"{self.config.max_words}) and {tokens.ids.shape[1]} columns of ids allow 1 to {most}"
            )

    # The interface knows no files: who does is asked by name, when someone saves or loads.

    def save(self, folder: str | Path) -> None:
        """Write `model.safetensors`, `config.json` and `vocabulary.json` into a folder of their own.

        And `backbone.safetensors`, where a backbone was tuned for it.
        """
        import_module("smlstm.saving").save(self, Path(folder))

    @staticmethod
    def load(folder: str | Path) -> "Matcher":
        """Read a matcher of any kind from a folder; runs no code from it."""
        found: Matcher = import_module("smlstm.saving").load(Path(folder))
        return found

    @staticmethod
    def from_pretrained(folder: str | Path | None = None) -> "Matcher":
        """Read the shipped model, or another pair of a shortlister and a reranker, as one matcher."""
        found: Matcher = import_module("smlstm.pair").load_model(folder).matcher()
        return found


_modes_guard = threading.Lock()
_users: dict[Matcher, int] = {}
_was_training: dict[Matcher, bool] = {}


@contextmanager
def evaluating(*matchers: Matcher) -> Iterator[None]:
    """Without dropout; when the last thread that wanted it so is done, as before."""
    with _modes_guard:
        for matcher in matchers:
            if not _users.get(matcher):
                _was_training[matcher] = matcher.training
                matcher.eval()
            _users[matcher] = _users.get(matcher, 0) + 1
    try:
        yield
    finally:
        with _modes_guard:
            for matcher in matchers:
                _users[matcher] -= 1
                if not _users[matcher]:
                    del _users[matcher]
                    matcher.train(_was_training.pop(matcher))


def refuse_single_sentence(sentences: Sequence[str] | Tokens) -> None:
    """A string is a sequence of strings too: without this, "dog" would be read as three sentences."""
    if isinstance(sentences, str):
        raise InputError(f"give a list of sentences, not one string: [{sentences!r}]")
