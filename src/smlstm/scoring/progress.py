"""How far a job is: numbers for a callback, and a bar on stderr for those who want one.

>>> with progress_bar() as show:  # doctest: +SKIP
...     score_all(matcher, images, sentences, progress=show)
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True)
class Progress:
    """Pairs scored so far."""

    done: int
    total: int
    seconds: float
    """Since this run began."""
    resumed: int = 0
    """Of `done`, pairs that an earlier run had finished."""

    @property
    def rate(self) -> float:
        """Pairs a second of this run."""
        return (self.done - self.resumed) / self.seconds if self.seconds > 0 else 0.0

    @property
    def left(self) -> float:
        """Seconds still to go at that rate; infinite as long as there is none."""
        return (self.total - self.done) / self.rate if self.rate > 0 else float("inf")


ProgressCallback = Callable[[Progress], None]


@contextmanager
def progress_bar(title: str = "Scoring", unit: str = "pairs") -> Iterator[ProgressCallback]:
    """A bar on stderr with the rate and the time left; nothing where stderr is no terminal."""
    from smlstm.progress_bar import ProgressBar  # noqa: PLC0415 - only who shows a bar pays for rich

    with ProgressBar(title, unit=unit) as bar:
        yield lambda progress: bar.update(progress.done, progress.total, resumed=progress.resumed)
