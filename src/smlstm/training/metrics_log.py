"""What a stage writes down while it trains: lines of metrics, and a warning if nothing is learned."""

import time
from pathlib import Path
from typing import Any

from smlstm.model.objective import collapse_loss
from smlstm.training.checkpoint import Progress
from smlstm.training.config import StageConfig
from smlstm.training.folder import MetricsFile
from smlstm.training.watchers import Watcher

_STUCK_LINES = 10
"""Lines of metrics in a row at the collapse value before a person is told."""


class MetricsLog:
    """Averages steps into lines, tells the watcher, and keeps the time spent in all sessions."""

    def __init__(self, name: str, stage: StageConfig, mismatched: int, watcher: Watcher) -> None:
        self._name, self._stage, self._watcher = name, stage, watcher
        self._collapsed = collapse_loss(stage.objective, mismatched)
        self._file: MetricsFile
        self._progress: Progress
        self.step_seconds = 0.0
        """Of the recent steps; 0 before the first line."""

    def open(self, path: Path, progress: Progress) -> None:
        """Go on at a checkpoint's end of the file."""
        self._file, self._progress = MetricsFile(path, progress.metrics_bytes), progress
        self._clock = self._line_at = time.monotonic()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def step(self, ranking: float, regulariser: float, norm: float, pairs: int) -> None:
        """Count a step."""
        window = self._progress.window
        found = {"count": 1, "ranking": ranking, "regulariser": regulariser, "norm": norm, "pairs": pairs}
        for key, value in found.items():
            window[key] = window.get(key, 0.0) + value
        self._watcher.step(self._progress.step, ranking + regulariser, pairs)

    def line(self, epoch_progress: float, learning_rate: float) -> None:
        """Write the mean of the steps since the last line."""
        window, self._progress.window = self._progress.window, {}
        count = window.get("count", 0.0)
        if not count:
            return
        now = time.monotonic()
        took, self._line_at = max(now - self._line_at, 1e-9), now
        self.step_seconds = took / count
        ranking, regulariser = window["ranking"] / count, window["regulariser"] / count
        self.write(
            "steps",
            step=self._progress.step,
            epoch_progress=epoch_progress,
            loss=ranking + regulariser,
            ranking=ranking,
            regulariser=regulariser,
            gradient_norm=window["norm"] / count,
            learning_rate=learning_rate,
            pairs_per_second=window["pairs"] / took,
            seconds=self.seconds,
        )
        self._watch_collapse(ranking)

    def _watch_collapse(self, ranking: float) -> None:
        near = abs(ranking - self._collapsed) < 0.02 * self._collapsed
        self._progress.stuck = self._progress.stuck + 1 if near else 0
        if self._progress.stuck == _STUCK_LINES:
            steps = _STUCK_LINES * self._stage.log_steps
            text = (
                f"{self._name}: the loss has stayed at {self._collapsed:.4g} for {steps} steps. That is the loss of a "
                "model that gives every pair the same score: it learns nothing. Lower "
                "learning_rate, lengthen warmup_steps, start from an MNLM (start_from), or take the product comparison"
            )
            self.write("collapse", step=self._progress.step, text=text)
            self._watcher.notice(text)

    def write(self, event: str, **fields: Any) -> None:
        """Add a line of any kind."""
        self._file.write(event, **fields)
        self._watcher.metrics(self._name, self._progress.step, {"event": event, **fields})

    @property
    def seconds(self) -> float:
        """Spent on this stage, in all its sessions."""
        return self._progress.seconds + time.monotonic() - self._clock

    def sync(self) -> None:
        """Force everything to the disk, and note in the progress how far it goes."""
        self._progress.seconds, self._clock = self.seconds, time.monotonic()
        self._progress.metrics_bytes = self._file.sync()
