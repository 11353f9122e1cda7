"""What a misspelt word was meant to be: the known word that is one slip of the finger away from it.

A slip is a letter too many, too few or another one, or two neighbours swapped: four in five misspellings are a single
one of these (Damerau 1964). It is forgiven from five letters on, if the word is no English word or name itself
(`english/`), and if its first letter is right, or swapped with the second: people seldom get it wrong. "f" for "ph" is
no slip. Of words equally near the most frequent one is meant.
"""

import gzip
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from smlstm.text.function_words import is_function_word

ENGLISH = Path(__file__).parent / "english" / "words.txt.gz"
_SHORTEST = 5


class Spelling:
    """Known words, the most frequent first."""

    def __init__(self, words: Iterable[str]) -> None:
        self._words = [word for word in words if _can_be_judged(word) and not is_function_word(word)]
        # Two words that are one slip apart are alike when at most one letter is left out of each.
        self._places: dict[str, list[int]] = defaultdict(list)
        for place, word in enumerate(self._words):
            for shorter in {form for sound in _sounds(word) for form in _shortened(sound)}:
                self._places[shorter].append(place)

    def meant(self, word: str) -> str | None:
        """The known word that is meant; None where the word is a word, too short, or near to none.

        >>> Spelling(["bicycle", "dog", "beach"]).meant("bicicle")
        'bicycle'
        """
        if not _can_be_judged(word) or word in _english():
            return None
        places = {place for shorter in _shortened(word) for place in self._places.get(shorter, ())}
        near = [(slips, place) for place in places if (slips := _slips(word, self._words[place])) <= 1]
        return self._words[min(near)[1]] if near else None


@cache
def _english() -> frozenset[str]:
    with gzip.open(ENGLISH, "rt", encoding="ascii") as file:
        return frozenset(file.read().split())


def _can_be_judged(word: str) -> bool:
    return len(word) >= _SHORTEST and word.isascii() and word.isalpha()


def _sounds(word: str) -> tuple[str, ...]:
    return (word, word.replace("ph", "f")) if "ph" in word else (word,)


def _shortened(word: str) -> Iterator[str]:
    yield word
    for place in range(len(word)):
        yield word[:place] + word[place + 1 :]


def _slips(typed: str, known: str) -> int:
    """Those that are forgiven; 2 where they are not."""
    if typed[0] != known[0] and typed[:2] != known[1::-1]:
        return 2
    return min(slips_between(typed, sound) for sound in _sounds(known))


def slips_between(first: str, second: str) -> int:
    """Letters to add, leave out, replace or swap with their neighbour, to make one word of the other.

    >>> slips_between("gutiar", "guitar"), slips_between("hors", "horse")
    (1, 1)
    """
    before: list[int] = []
    row = list(range(len(second) + 1))
    for i, one in enumerate(first, start=1):
        last, before, row = before, row, [i]
        for j, other in enumerate(second, start=1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (one != other))
            if i > 1 and j > 1 and one == second[j - 2] and first[i - 2] == other:
                cost = min(cost, last[j - 2] + 1)
            row.append(cost)
    return row[-1]
