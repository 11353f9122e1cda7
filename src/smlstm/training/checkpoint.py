"""Checkpoints: everything a stage needs to go on as if it had never stopped.

A file is written beside its place, forced to the disk, and renamed: whoever is killed at any moment leaves either
the old checkpoint or the new one. Nothing random has a state to keep: every draw of step k (its batch, its
dropout, its negatives) is seeded by the run's seed, the stage and k. The learning rate is a function of k.
Reading runs no code (`weights_only`).
"""

import pickle
import zipfile
import zlib
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from smlstm.errors import ConfigurationError, SmlstmError
from smlstm.files import whole_file

FORMAT = 1


@dataclass
class Progress:
    """Where a stage stands."""

    epoch: int = 0
    batch: int = 0
    """Batches of the epoch that are done."""
    step: int = 0
    best: float = -1.0
    """Best dev Sum so far."""
    best_epoch: int = -1
    finished: str = ""
    """Why the stage ended; empty while it has not."""
    seconds: float = 0.0
    metrics_bytes: int = 0
    """Length of the metrics file: what is behind it belongs to steps that will come again."""
    window: dict[str, float] = field(default_factory=dict)
    """Sums since the last line of metrics."""
    stuck: int = 0
    """Lines in a row at the collapse value."""


@dataclass(frozen=True)
class Checkpoint:
    """What was read from a file."""

    progress: Progress
    identity: dict[str, Any]
    model: dict[str, Any]
    optimiser: dict[str, Any]
    tail: dict[str, Any] | None = None
    """What the backbone's tail has learned, where a stage tunes."""
    backbone: str = ""
    """Whose features were read: with those of another one, a stage cannot go on."""


def write_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Write atomically and durably."""
    content = {
        "format": FORMAT,
        "progress": asdict(checkpoint.progress),
        "identity": checkpoint.identity,
        "model": checkpoint.model,
        "optimiser": checkpoint.optimiser,
        "tail": checkpoint.tail,
        "backbone": checkpoint.backbone,
    }
    try:
        with whole_file(path, durable=True) as file:
            torch.save(content, file)
    except OSError as error:
        raise SmlstmError(f"{path} cannot be written: {error.strerror}; the checkpoint before it is whole") from error


def read_checkpoint(path: Path) -> Checkpoint:
    """Read a checkpoint; what is not one is refused."""
    _check_whole(path)
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except (RuntimeError, EOFError, pickle.UnpicklingError, ValueError, KeyError) as error:
        raise ConfigurationError(
            f"{path} is not a checkpoint ({type(error).__name__}): start again with --fresh"
        ) from None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ConfigurationError(f"{path} was written by another version of smlstm: start again with --fresh")
    return Checkpoint(
        Progress(**content["progress"]),
        content["identity"],
        content["model"],
        content["optimiser"],
        content.get("tail"),
        content.get("backbone", ""),
    )


def _check_whole(path: Path) -> None:
    """Compare a checkpoint with the checksums in it, which torch writes but does not read."""
    try:
        with zipfile.ZipFile(path) as parts:
            damaged = parts.testzip()
    except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, RuntimeError) as error:
        damaged = type(error).__name__
    if damaged is not None:
        raise ConfigurationError(f"{path} is not a checkpoint, or is damaged ({damaged}): start again with --fresh")


def difference(old: dict[str, Any], new: dict[str, Any], place: str = "") -> str | None:
    """Name the first setting in which two configurations differ, with both values."""
    for key in sorted(set(old) | set(new)):
        here = f"{place}{key}"
        was, now = old.get(key), new.get(key)
        if isinstance(was, dict) and isinstance(now, dict):
            found = difference(was, now, f"{here}.")
            if found:
                return found
        elif was != now:
            return f"{here} was {was!r} and is {now!r}"
    return None
