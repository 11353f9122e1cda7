"""How far work is, on stderr: a bar in a terminal; elsewhere a line now and then, or nothing."""

import time
from collections.abc import Callable
from datetime import timedelta

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

HALF_A_MINUTE = 30.0


class ProgressBar:
    """Counts what is done and shows its number, how many a second and the time left.

    `between_lines` is the time between two lines where there is no terminal; without it, nothing is left to be seen of
    the work when it is done, neither lines nor the bar.
    """

    def __init__(
        self,
        title: str,
        total: int | None = None,
        unit: str = "photos",
        *,
        between_lines: float | None = None,
        console: Console | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._title, self._total, self._unit = title, total, unit
        self._console = console or Console(stderr=True)
        self._between_lines, self._clock = between_lines, clock
        self._done = 0
        self._start = self._shown = clock()
        self._bar: Progress | None = None
        if self._console.is_terminal:
            columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
            news = TextColumn("{task.fields[news]}", markup=False)
            self._bar = Progress(*columns, news, console=self._console, transient=between_lines is None)
            self._task = self._bar.add_task(title, total=total, news="")

    @property
    def in_terminal(self) -> bool:
        """Whether there is a bar to be seen."""
        return self._bar is not None

    def advance(self, count: int) -> None:
        """So many more are done."""
        self.update(self._done + count)

    def update(self, done: int, total: int | None = None, *, resumed: int = 0, news: str | None = None) -> None:
        """So many are done, `resumed` of them before this run; `news` stand in place of how many a second."""
        self._done, self._total = done, self._total if total is None else total
        now = self._clock()
        if self._bar is not None:
            self._bar.update(self._task, completed=done, total=self._total, news=self._news(now, resumed, news))
        elif self._between_lines is not None and now - self._shown >= self._between_lines:
            self._shown = now
            self.say(f"{self._title}: {done}/{self._total} {self._unit}, {self._news(now, resumed, news)}")

    def say(self, text: str) -> None:
        """Print a line, above the bar if there is one; it is never broken, so that programs can read it."""
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def _news(self, now: float, resumed: int, news: str | None) -> str:
        # Over the whole run: batches come in bursts, so that the speed of the last moments says nothing.
        done, seconds = self._done - resumed, now - self._start
        if done <= 0 or seconds <= 0 or self._total is None:
            return news or ""
        rate = done / seconds
        left = timedelta(seconds=round((self._total - self._done) / rate))
        return f"{news or f'{rate:,.{1 if rate < 100 else 0}f} {self._unit}/s'}, {left} left"

    def __enter__(self) -> "ProgressBar":
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()
