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
    from rich.console import Console  # noqa: PLC0415 - only who shows a bar pays for it
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn  # noqa: PLC0415
    from rich.progress import Progress as Bar  # noqa: PLC0415

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]} " + f"{unit}/s"),
        TextColumn("{task.fields[left]} left"),
        TimeElapsedColumn(),
    )
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=None, rate="-", left="-")

        def show(progress: Progress) -> None:
            bar.update(
                task,
                total=progress.total,
                completed=progress.done,
                rate=f"{progress.rate:,.0f}",
                left=duration(progress.left),
            )

        yield show


def duration(seconds: float) -> str:
    """Hours, minutes and seconds, the largest two that matter."""
    if seconds == float("inf"):
        return "-"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02} min"
    return f"{minutes} min {rest:02} s" if minutes else f"{rest} s"
