"""How far an extraction is, on stderr: a bar in a terminal, elsewhere a line every half minute."""

import time
from collections.abc import Callable
from datetime import timedelta

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

SECONDS_BETWEEN_LINES = 30.0


class PhotoProgress:
    """Counts photos and shows their number, photos/s and the time left."""

    def __init__(
        self, title: str, total: int, console: Console | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._console = console or Console(stderr=True)
        self._title, self._total, self._done = title, total, 0
        self._clock = clock
        self._start = self._shown = clock()
        self._bar: Progress | None = None
        if self._console.is_terminal:
            columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
            self._bar = Progress(*columns, TextColumn("{task.fields[speed]}"), console=self._console)
            self._task = self._bar.add_task(title, total=total, speed="")

    def advance(self, count: int) -> None:
        """Count photos that are done."""
        self._done += count
        now = self._clock()
        if self._bar is not None:
            self._bar.update(self._task, completed=self._done, speed=self._speed(now))
        elif now - self._shown >= SECONDS_BETWEEN_LINES:
            self._shown = now
            self.say(f"{self._title}: {self._done}/{self._total} photos, {self._speed(now)}")

    def say(self, text: str) -> None:
        """Print a line, above the bar if there is one; it is never broken, so that programs can read it."""
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def _speed(self, now: float) -> str:
        # Over the whole run: batches come in bursts, so that the speed of the last moments says nothing.
        seconds = now - self._start
        if not self._done or seconds <= 0:
            return ""
        left = timedelta(seconds=round(seconds / self._done * (self._total - self._done)))
        return f"{self._done / seconds:.1f} photos/s, {left} left"

    def __enter__(self) -> "PhotoProgress":
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()
