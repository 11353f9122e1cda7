"""The vocabulary: which words the model knows, in which row of the embedding each one lives.

Built from training captions only: words of dev or test captions that training never showed stay unknown, as
they would be for a user's sentence.
"""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from smlstm.errors import ConfigurationError
from smlstm.text.forms import other_form
from smlstm.text.spelling import Spelling
from smlstm.text.tokens import tokenise

PADDING = 0
UNKNOWN = 1
_SPECIAL = ("<pad>", "<unk>")


@dataclass(frozen=True)
class EncodedText:
    """One sentence as rows of the embedding, with what was lost on the way."""

    ids: list[int]
    unknown: list[str]
    """Words outside the vocabulary, in order of appearance; each became `UNKNOWN`."""
    read_as: dict[str, str]
    """Words outside the vocabulary that were read as another form of theirs, which is in it."""
    dropped: int
    """Words beyond the limit, cut from the end."""


@dataclass(frozen=True)
class Vocabulary:
    """The known words; `words[0]` has the row after the two special ones (padding and unknown)."""

    words: tuple[str, ...]
    minimum_count: int = 1

    def __post_init__(self) -> None:
        if len(set(self.words)) != len(self.words):
            twice = next(word for word, count in Counter(self.words).items() if count > 1)
            raise ConfigurationError(f'vocabulary: the word "{twice}" is listed twice')

    @classmethod
    def build(cls, captions: Iterable[str], minimum_count: int = 1) -> "Vocabulary":
        """Collect the words of training captions seen at least `minimum_count` times, most frequent first."""
        counts = Counter(word for caption in captions for word in tokenise(caption))
        kept = [word for word, count in counts.items() if count >= minimum_count]
        return cls(tuple(sorted(kept, key=lambda word: (-counts[word], word))), minimum_count)

    def __len__(self) -> int:
        """Rows of the embedding, the special ones included."""
        return len(self.words) + len(_SPECIAL)

    def __contains__(self, word: str) -> bool:
        return word in self._rows

    @cached_property
    def _rows(self) -> dict[str, int]:
        return {word: row for row, word in enumerate(self.words, start=len(_SPECIAL))}

    @cached_property
    def _spelling(self) -> Spelling:
        return Spelling(self.words)

    def meant(self, word: str) -> str | None:
        """The known word that an unknown one is likely to be a misspelling of."""
        return None if word in self._rows else self._spelling.meant(word)

    def row(self, word: str) -> int:
        """Row of the embedding for one word, `UNKNOWN` if it is not known."""
        return self._rows.get(word, UNKNOWN)

    def word(self, row: int) -> str:
        """The word that lives in a row."""
        return _SPECIAL[row] if row < len(_SPECIAL) else self.words[row - len(_SPECIAL)]

    def encode(self, sentence: str, limit: int | None = None) -> EncodedText:
        """Turn a sentence into rows; words beyond `limit` are cut and counted, unknown ones are reported.

        An unknown word is read as another form of it (`kayaks` as `kayak`) where that is known.
        """
        return self.encode_words(tokenise(sentence), limit)

    def encode_words(self, words: Sequence[str], limit: int | None = None) -> EncodedText:
        """As `encode`, of a sentence that was split into words."""
        kept = words[:limit]
        forms = {word: other_form(word, self._rows) for word in kept if word not in self._rows}
        read_as = {word: form for word, form in forms.items() if form is not None}
        ids = [self.row(read_as.get(word, word)) for word in kept]
        unknown = [word for word, row in zip(kept, ids, strict=True) if row == UNKNOWN]
        return EncodedText(ids, unknown, read_as, len(words) - len(kept))

    def unknown_words(self, sentences: Sequence[str]) -> list[str]:
        """Distinct unknown words of some sentences, in order of appearance."""
        seen = (word for sentence in sentences for word in self.encode(sentence).unknown)
        return list(dict.fromkeys(seen))

    def to_json(self) -> str:
        """Write as the text of a `vocabulary.json`."""
        content = {"format": 1, "minimum_count": self.minimum_count, "words": list(self.words)}
        return json.dumps(content, ensure_ascii=False, indent=0)

    @classmethod
    def from_json(cls, text: str) -> "Vocabulary":
        """Read the text of a `vocabulary.json`; a file that does not fit is refused by the field's name."""
        try:
            content: Any = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ConfigurationError(f"vocabulary.json is not JSON: {error}") from None
        if not isinstance(content, dict) or content.get("format") != 1:
            found = content.get("format") if isinstance(content, dict) else type(content).__name__
            raise ConfigurationError(f'vocabulary.json: "format" is {found!r}, this version reads 1')
        words = content.get("words")
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise ConfigurationError('vocabulary.json: "words" must be a list of strings')
        minimum_count = content.get("minimum_count", 1)
        if not isinstance(minimum_count, int):
            raise ConfigurationError('vocabulary.json: "minimum_count" must be a whole number')
        return cls(tuple(words), minimum_count)
