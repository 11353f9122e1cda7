"""Endless results: a ranking that grows when more of it is asked for, and does not change where it was shown.

A shortlist is put in order as a whole. When its end is reached, a longer one is, and whatever of it was not shown
yet follows; otherwise a photo could come twice, or never.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable

from smlstm.search.found import Found, Match

SHORTLISTS = (100, 300, 1000)
_KEPT = 64


class Ranking:
    """The photos that answer one question about one state of the library."""

    def __init__(self, ask: Callable[[int], Found]) -> None:
        self._ask = ask
        self._guard = threading.Lock()
        self._matches: list[Match] = []
        self._asked = 0
        self._found: Found | None = None

    def part(self, offset: int, limit: int) -> tuple[list[Match], bool, Found]:
        """Some matches, whether there may be more behind them, and the latest answer as a whole."""
        with self._guard:
            # The first page is answered from one shortlist: people want it soon, and seldom a second one.
            while self._found is None or (offset and len(self._matches) < offset + limit and self._can_grow):
                self._grow()
            found = self._matches[offset : offset + limit]
            more = bool(self._matches[offset + limit :]) or self._can_grow
            assert self._found is not None
            return found, more, self._found

    @property
    def _can_grow(self) -> bool:
        assert self._found is not None
        return self._asked < len(SHORTLISTS) and self._found.searched > SHORTLISTS[self._asked - 1]

    def _grow(self) -> None:
        found = self._ask(SHORTLISTS[self._asked])
        shown = {match.content for match in self._matches}
        self._matches += [match for match in found if match.content not in shown]
        self._found, self._asked = found, self._asked + 1


class Rankings:
    """The latest questions with their rankings; what is asked again is not computed again."""

    def __init__(self) -> None:
        self._kept: OrderedDict[object, Ranking] = OrderedDict()
        self._guard = threading.Lock()

    def get(self, key: object, ask: Callable[[int], Found]) -> Ranking:
        """The ranking of a question; `ask` answers it with a shortlist of some length."""
        with self._guard:
            ranking = self._kept.pop(key, None) or Ranking(ask)
            self._kept[key] = ranking
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
            return ranking
