"""TensorBoard, for those who have it: the same numbers as in the metrics."""

from pathlib import Path
from typing import Any

from smlstm.errors import MissingDependencyError
from smlstm.training.watchers import Watcher


class Board(Watcher):
    """Writes every number of every line of metrics."""

    def __init__(self, folder: Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415 - an extra, and slow to import
        except ImportError:
            raise MissingDependencyError(
                'TensorBoard is not installed: pip install "smlstm[tensorboard]", or leave --tensorboard out'
            ) from None
        self._writer: Any = SummaryWriter(str(folder))

    def metrics(self, stage: str, step: int, fields: dict[str, Any]) -> None:
        """Write a line's numbers under the stage's name."""
        for name, value in _numbers(fields):
            self._writer.add_scalar(f"{stage}/{name}", value, step)
        self._writer.flush()


def _numbers(fields: dict[str, Any], place: str = "") -> list[tuple[str, float]]:
    found: list[tuple[str, float]] = []
    for key, value in fields.items():
        if isinstance(value, dict):
            found += _numbers(value, f"{place}{key}/")
        elif isinstance(value, int | float) and key != "step":
            found.append((f"{place}{key}", float(value)))
    return found
