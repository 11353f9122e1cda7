"""The folder of a run: what was asked, on what it ran, what came out.

runs/NAME/
  config.json        the full configuration, defaults filled in; `smlstm train runs/NAME` runs it again
  machine.json       versions, processor, when it began
  curves.png         loss and dev Sum of all stages
  model/             the last stage's best model (a link)
  sentences/         training captions as a language model reads them, if a stage wants that
  features/          features of a backbone that a stage tuned, if a later stage reads them
  .STAGE.lock        who trains a stage: one process at a time
  pair/              two stages' models and their calibration, if the configuration wants a pair
  STAGE/
    metrics.jsonl    one line every few steps, one an epoch
    model/           the best model by dev Sum
    model-at-stop/   a better one, if the clock stopped an epoch in its middle; gone when the run goes on
    checkpoint.pt    where it stands
"""

import json
import os
import platform
import shutil
import sys
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy
import torch

from smlstm import __version__
from smlstm.errors import InputError
from smlstm.files import write_whole
from smlstm.training.config import RunConfig


class RunFolder:
    """Paths of a run, and what is written for its readers."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.pair, self.features = path / "pair", path / "features"

    def begin(self, config: RunConfig) -> None:
        """Write down what is going to happen."""
        self.path.mkdir(parents=True, exist_ok=True)
        _write_json(self.path / "config.json", config.model_dump(mode="json"))
        _write_json(self.path / "machine.json", describe_machine())

    def machine(self) -> dict[str, Any] | None:
        """On what the run was last trained; None if nothing says it."""
        try:
            content: dict[str, Any] = json.loads((self.path / "machine.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return content

    def stage(self, name: str) -> "StageFolder":
        """The part of one stage."""
        return StageFolder(self.path / name)

    def trained(self, stage: str) -> Path:
        """Where the best model of an earlier stage is."""
        folder = self.stage(stage).best_model
        if not folder.exists():
            raise InputError(f'stage "{stage}" has no model yet: train it first, or leave --stage out to train all')
        return folder

    def show_model(self, stage: str) -> None:
        """Let `model` point at a stage's best model."""
        target = self.stage(stage).best_model
        link, part = self.path / "model", self.path / ".model.part"
        if link.is_dir() and not link.is_symlink():
            shutil.rmtree(link)  # a copy, made where links cannot be
        part.unlink(missing_ok=True)
        try:
            part.symlink_to(target.relative_to(self.path), target_is_directory=True)
            part.replace(link)
        except OSError:
            shutil.copytree(target, link)


class StageFolder:
    """Files of one stage."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.model, self.checkpoint, self.metrics = path / "model", path / "checkpoint.pt", path / "metrics.jsonl"
        # Apart from `model`: what a stopped epoch gave must not stand in the way of a run that goes on exactly.
        self.model_at_stop = path / "model-at-stop"
        self.sentences = path.parent / "sentences"

    @property
    def best_model(self) -> Path:
        """The best model there is by now."""
        return self.model_at_stop if self.model_at_stop.exists() else self.model

    def begin(self, fresh: bool) -> None:
        """Make the folder; remove the remains of a killed process, and everything if a fresh start is wanted."""
        if fresh and self.path.exists():
            shutil.rmtree(self.path)
        self.path.mkdir(parents=True, exist_ok=True)
        for rest in [*self.path.glob(".model*.part"), *self.path.glob(".model*.old")]:
            shutil.rmtree(rest, ignore_errors=True)


class MetricsFile:
    """Lines of JSON. Opened at a checkpoint's length: lines of steps that will come again are cut off."""

    def __init__(self, path: Path, length: int) -> None:
        self._file = path.open("ab")
        if path.is_file():  # not the null device of a process that only computes
            self._file.truncate(min(length, self._file.seek(0, os.SEEK_END)))
        self._file.seek(0, os.SEEK_END)

    def write(self, event: str, **fields: Any) -> None:
        """Add a line."""
        self._file.write(json.dumps({"event": event, **_rounded(fields)}).encode() + b"\n")

    def sync(self) -> int:
        """Force it to the disk; returns its length."""
        self._file.flush()
        os.fsync(self._file.fileno())
        return self._file.tell()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def read_metrics(path: Path) -> Iterator[dict[str, Any]]:
    """Lines of a metrics file; one that is being written, or is damaged, is left out: nothing is trained by it."""
    if not path.exists():
        return
    for line in path.read_bytes().splitlines():
        try:
            content = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(content, dict) and _fits(content, _SHAPES.get(content.get("event"), _SHAPE)):
            yield content


_NUMBER, _TEXT = (int, float), str
_RATES = dict.fromkeys(("r1", "r5", "r10"), _NUMBER)
_DEV = {"sum": _NUMBER, "images": _NUMBER, "annotation": _RATES, "retrieval": _RATES}
_SHAPE: dict[str, Any] = {"event": _TEXT}
_SHAPES: dict[Any, dict[str, Any]] = {
    "steps": {"step": _NUMBER, "epoch_progress": _NUMBER, "loss": _NUMBER},
    "epoch": {"step": _NUMBER, "epoch": _NUMBER, "dev": _DEV},
    "end": {"reason": _TEXT},
}
"""What readers rely on, by event."""


def _fits(content: Any, shape: Any) -> bool:
    if isinstance(shape, dict):
        return isinstance(content, dict) and all(_fits(content.get(key), each) for key, each in shape.items())
    return isinstance(content, shape)


def describe_machine() -> dict[str, Any]:
    """What a result may depend on besides the configuration."""
    return {
        "began": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "smlstm": __version__,
        "python": sys.version.split()[0],
        "torch": torch.__version__,
        "numpy": numpy.__version__,
        "system": f"{platform.system()} {platform.machine()}",
        "processor": _processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "gpu": torch.cuda.get_device_name(0) if torch.cuda.is_available() else None,
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor()


def _rounded(fields: dict[str, Any]) -> dict[str, Any]:
    return {
        key: _rounded(value)
        if isinstance(value, dict)
        else float(f"{value:.6g}")
        if isinstance(value, float)
        else value
        for key, value in fields.items()
    }


def _write_json(path: Path, content: Any) -> None:
    write_whole(path, json.dumps(content, indent=2) + "\n")
