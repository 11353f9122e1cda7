"""Training one run within a budget of minutes, over as many sessions as it takes.

A run is done when its epochs are, when it stopped early, or when its minutes are spent in all sessions together;
then `budget.json` says so. One that was killed goes on from its checkpoint with the minutes that are left.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from smlstm.errors import ConfigurationError, SmlstmError
from smlstm.files import write_whole
from smlstm.training import RunConfig, Watcher, train
from smlstm.training.checkpoint import Progress, read_checkpoint
from smlstm.training.folder import RunFolder, StageFolder, read_metrics
from smlstm.training.run import changed_since, identity


@dataclass(frozen=True)
class Trained:
    """How the training of a run ended."""

    reason: str
    finished: bool
    """Whether it came to its own end, not to that of its minutes."""
    minutes: float
    """Spent in all sessions."""
    epochs: float
    limit: float | None = None
    """Minutes that it was given."""


def check_runs(config: RunConfig, folder: Path, names: list[str]) -> None:
    """Refuse a folder that holds runs of another configuration before any of them is trained."""
    for name in names:
        place = RunFolder(folder).stage(name)
        if not place.checkpoint.exists():
            continue
        found = changed_since(read_checkpoint(place.checkpoint).identity, config, name)
        if found:
            raise ConfigurationError(
                f"{place.path} holds a run of another configuration: {found}. "
                "Give --out another folder, or delete this one to train it again"
            )


def trained(config: RunConfig, folder: Path, name: str, minutes: float | None) -> Trained | None:
    """What is known of a run that is done; None if there is something left to train."""
    card = _read_card(RunFolder(folder).stage(name))
    if card is None or changed_since(card["identity"], config, name):
        return None
    ended = Trained(**{**card["trained"], "limit": card["minutes"]})
    enough = card["minutes"] is None or (minutes is not None and minutes <= card["minutes"])
    return ended if ended.finished or enough else None


def train_within(
    config: RunConfig, folder: Path, name: str, minutes: float | None, watcher: Watcher | None = None
) -> Trained | None:
    """Train what is left of a run; None if someone interrupted it."""
    done = trained(config, folder, name, minutes)
    if done is not None:
        return done
    place = RunFolder(folder).stage(name)
    spent = read_checkpoint(place.checkpoint).progress.seconds / 60 if place.checkpoint.exists() else 0.0
    left = None if minutes is None else max(0.0, minutes - spent)
    (result,) = train(config, folder, stages=[name], minutes=left, watcher=watcher)
    if result.reason == "interrupted":
        return None
    if not place.best_model.exists():
        raise SmlstmError(f"{name}: {minutes:g} minutes were too few for a single step; give more with --minutes")
    progress = read_checkpoint(place.checkpoint).progress
    ended = Trained(result.reason, result.finished, progress.seconds / 60, _epochs(place, progress), minutes)
    card = {"minutes": minutes, "identity": identity(config, name), "trained": vars(ended)}
    write_whole(place.path / "budget.json", json.dumps(card, indent=2) + "\n")
    return ended


def _epochs(place: StageFolder, progress: Progress) -> float:
    """Epochs that are done, the last one in part."""
    lines = [line["epoch_progress"] for line in read_metrics(place.metrics) if "epoch_progress" in line]
    return float(max([progress.epoch, *lines]))


def _read_card(place: StageFolder) -> dict[str, Any] | None:
    try:
        content: dict[str, Any] = json.loads((place.path / "budget.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return content
