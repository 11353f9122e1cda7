"""Who watches a run: the command line's progress, TensorBoard, a test."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from smlstm.scoring.progress import ProgressCallback
from smlstm.training.dev import DevMetrics


class Watcher:
    """Told what happens; does nothing by itself. Inherit and override what is of interest."""

    def begin(self, stage: str, step: int, steps: int) -> None:
        """A stage begins, or goes on from a step."""

    def step(self, step: int, loss: float, pairs: int) -> None:
        """A step is done."""

    def metrics(self, stage: str, step: int, fields: dict[str, Any]) -> None:
        """A line was written to the metrics."""

    def dev(self, stage: str, epoch: int, found: DevMetrics, best: bool) -> None:
        """An epoch was measured."""

    def notice(self, text: str) -> None:
        """Something a person should know."""

    def end(self, stage: str, reason: str) -> None:
        """A stage ended, or was stopped."""

    def scoring(self, title: str, unit: str = "pairs") -> AbstractContextManager[ProgressCallback | None]:
        """Something is scored that takes minutes: where its progress goes."""
        return nullcontext()


class Watchers(Watcher):
    """Several at once."""

    def __init__(self, *watchers: Watcher) -> None:
        self._watchers = watchers

    def begin(self, stage: str, step: int, steps: int) -> None:
        """Tell all."""
        for watcher in self._watchers:
            watcher.begin(stage, step, steps)

    def step(self, step: int, loss: float, pairs: int) -> None:
        """Tell all."""
        for watcher in self._watchers:
            watcher.step(step, loss, pairs)

    def metrics(self, stage: str, step: int, fields: dict[str, Any]) -> None:
        """Tell all."""
        for watcher in self._watchers:
            watcher.metrics(stage, step, fields)

    def dev(self, stage: str, epoch: int, found: DevMetrics, best: bool) -> None:
        """Tell all."""
        for watcher in self._watchers:
            watcher.dev(stage, epoch, found, best)

    def notice(self, text: str) -> None:
        """Tell all."""
        for watcher in self._watchers:
            watcher.notice(text)

    def end(self, stage: str, reason: str) -> None:
        """Tell all."""
        for watcher in self._watchers:
            watcher.end(stage, reason)

    def scoring(self, title: str, unit: str = "pairs") -> AbstractContextManager[ProgressCallback | None]:
        """Tell the first: there is one place for a bar."""
        return self._watchers[0].scoring(title, unit) if self._watchers else nullcontext()
