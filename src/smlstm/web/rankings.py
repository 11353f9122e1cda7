"""Endless results: a ranking that grows when more of it is asked for, and does not change where it was shown.

The photos nearest to a question are one list, cut into parts; what is on a part is put in order as a whole, when it is
reached. The list is the same for every part, so that no photo comes twice, or never; and a part is as long as it is,
so that who asks for the 900th photo waits for one part and not for all before it.
"""

import threading
from collections.abc import Callable

from cachetools import LRUCache

from smlstm.search.matches import Found, Match

SHORTLISTS = (100, 300, 400, 500, 600, 700, 800, 900, 1000)
"""Where parts end; each begins where the one before it ends."""
_KEPT = 64
Ask = Callable[[int, int], Found]


class Ranking:
    """The photos that answer one question about one state of the library.

    `ask` puts in order what lies between two places of the list. `countable` says that it leaves none of them out.
    """

    def __init__(self, ask: Ask, countable: bool) -> None:
        self._ask, self._countable = ask, countable
        self._parts = list(zip((0, *SHORTLISTS), SHORTLISTS, strict=False))
        self._guard = threading.Lock()
        self._matches: dict[int, list[Match]] = {}
        self._found: Found | None = None

    def part(self, offset: int, limit: int) -> tuple[list[Match], bool, Found]:
        """Some matches, whether there may be more behind them, and the latest answer of the search."""
        with self._guard:
            page: list[Match] = []
            number = place = 0
            while self._is_there(number) and place < offset + limit:
                if offset == 0 and page:
                    break  # the first page is answered from one part: people want it soon, and seldom a second one
                end = self._parts[number][1]
                if self._countable and end <= offset:
                    place = end
                else:
                    matches = self._look_at(number)
                    page += matches[max(0, offset - place) : offset + limit - place]
                    place += len(matches)
                number += 1
            if self._found is None:  # all that could be shown lies before what is asked for
                self._look_at(0)
            assert self._found is not None
            return page, place > offset + limit or self._is_there(number), self._found

    def _is_there(self, number: int) -> bool:
        """Whether a part has photos, as far as is known."""
        if number >= len(self._parts):
            return False
        return self._found is None or self._parts[number][0] < self._found.searched

    def _look_at(self, number: int) -> list[Match]:
        if number not in self._matches:
            self._found = self._ask(*self._parts[number])
            # Another search may have seen the library a moment later.
            shown = {match.content for part in self._matches.values() for match in part}
            self._matches[number] = [match for match in self._found if match.content not in shown]
        return self._matches[number]


class Rankings:
    """The latest questions with their rankings; what is asked again is not computed again."""

    def __init__(self) -> None:
        self._kept: LRUCache[object, Ranking] = LRUCache(_KEPT)
        self._guard = threading.Lock()

    def get(self, key: object, ask: Ask, countable: bool) -> Ranking:
        """The ranking of a question, the one that is kept or one to begin with."""
        with self._guard:
            return self._kept.setdefault(key, Ranking(ask, countable))
