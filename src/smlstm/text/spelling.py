"""What a misspelt word was meant to be: the known word that is one or two slips of the finger away from it.

A slip is a letter too many, too few or another one, or two neighbours swapped (Damerau 1964 found four in five
misspellings to be a single one of these). One slip is forgiven from four letters on, two from eight on; the first
letter has to be right, or swapped with the second, since people seldom get it wrong and short words would else become
anything. "f" for "ph" is none. Of words equally far away the more frequent one is meant.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import lru_cache

_ONE_FROM, _TWO_FROM = 4, 8


class Spelling:
    """Known words, the most frequent first."""

    def __init__(self, words: Iterable[str]) -> None:
        self._by_start: dict[str, list[str]] = defaultdict(list)
        for word in words:
            if word.isalpha() and len(word) >= _ONE_FROM:
                self._by_start[word[0]].append(word)
        self._kept = lru_cache(maxsize=4096)(self._find)  # looking for one takes milliseconds

    def meant(self, word: str) -> str | None:
        """The known word that is meant; None where none is near, or the word is too short or no word.

        >>> Spelling(["bicycle", "dog", "beach"]).meant("bicicle")
        'bicycle'
        """
        return self._kept(word)

    def _find(self, word: str) -> str | None:
        slips = 2 if len(word) >= _TWO_FROM else 1
        if not word.isalpha() or len(word) < _ONE_FROM:
            return None
        near = [
            (distance, place, known)
            for start in dict.fromkeys(word[:2])
            for place, known in enumerate(self._by_start.get(start, ()))
            if abs(len(known) - len(word)) <= slips
            and (start == word[0] or known[:2] == word[1::-1])
            and (distance := _distance(word, known)) <= slips
        ]
        return min(near)[2] if near else None


def _distance(typed: str, known: str) -> int:
    written = slips_between(typed, known)
    return min(written, slips_between(typed, known.replace("ph", "f"))) if "ph" in known else written


def slips_between(first: str, second: str) -> int:
    """Letters to add, leave out, replace or swap with their neighbour, to make one word of the other.

    >>> slips_between("gutiar", "guitar"), slips_between("hors", "horse")
    (1, 1)
    """
    before: Sequence[int] = ()
    row = list(range(len(second) + 1))
    for i, one in enumerate(first, start=1):
        last, before, row = before, row, [i]
        for j, other in enumerate(second, start=1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (one != other))
            if i > 1 and j > 1 and one == second[j - 2] and first[i - 2] == other:
                cost = min(cost, last[j - 2] + 1)
            row.append(cost)
    return row[-1]
