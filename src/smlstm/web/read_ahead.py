"""Sentences that wait are read together: the language model reads eight in the time of four.

A question announces its sentences when it arrives. When its turn comes and they are not read yet, those of the
questions behind it are read in the same go; what was read is known when their turn comes. A lone question waits for
nobody, and no answer depends on its company (see `LanguageModel.read`).
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

MOST_TOGETHER = 16


class ReadAhead:
    """What is announced, and what is being read; the event loop announces, several threads read."""

    def __init__(self, read: Callable[[Sequence[str]], None]) -> None:
        self._read = read
        self._guard = threading.Lock()
        self._waiting: dict[str, int] = {}  # in the order of their arrival, and how many questions have them
        self._under_way: dict[str, threading.Event] = {}

    @contextmanager
    def announced(self, sentences: Sequence[str]) -> Iterator[None]:
        """Sentences of a question that waits, until it is answered."""
        with self._guard:
            for sentence in sentences:
                self._waiting[sentence] = self._waiting.get(sentence, 0) + 1
        try:
            yield
        finally:
            with self._guard:
                for sentence in sentences:
                    count = self._waiting.pop(sentence, 0) - 1
                    if count > 0:
                        self._waiting[sentence] = count

    def read(self, sentences: Sequence[str]) -> None:
        """Read what a question needs and is not read yet, together with what others will need."""
        done = threading.Event()
        with self._guard:
            others = [self._under_way[each] for each in sentences if each in self._under_way]
            mine = [each for each in sentences if each in self._waiting]
            if mine:
                mine = list(dict.fromkeys([*mine, *self._waiting]))[: max(MOST_TOGETHER, len(mine))]
            for each in mine:
                del self._waiting[each]
                self._under_way[each] = done
        try:
            if mine:
                self._read(mine)
        finally:
            with self._guard:
                for each in mine:
                    if self._under_way.get(each) is done:
                        del self._under_way[each]
            done.set()
        for event in others:
            event.wait()
