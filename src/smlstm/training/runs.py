"""Runs side by side: what their folders tell."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from smlstm.errors import InputError
from smlstm.training.folder import StageFolder, read_metrics


@dataclass(frozen=True)
class StageSummary:
    """One stage of one run."""

    run: str
    stage: str
    kind: str
    state: str
    epochs: str
    step: int
    loss: float | None
    best: dict[str, Any] | None
    """Dev metrics of the best epoch."""
    best_epoch: int | None
    minutes: float
    settings: dict[str, Any]
    """The stage's configuration."""


def find_runs(folders: Sequence[Path]) -> list[Path]:
    """Folders of runs among these and right below them, oldest first."""
    found: list[Path] = []
    for folder in folders:
        if (folder / "config.json").is_file() and (folder / "machine.json").is_file():
            found.append(folder)
        elif folder.is_dir():
            found += [path.parent for path in folder.glob("*/machine.json") if (path.parent / "config.json").is_file()]
        else:
            raise InputError(f"{folder} does not exist: give the folder of a run, or one that has runs in it")
    return sorted(dict.fromkeys(found), key=lambda path: ((path / "machine.json").stat().st_mtime, path))


def summarise(folder: Path) -> list[StageSummary]:
    """The stages of a run that were begun."""
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        stages: dict[str, dict[str, Any]] = config["stage"]
    except (json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError):
        raise InputError(f"{folder / 'config.json'} is not the configuration of a run") from None
    return [
        _summarise_stage(folder, name, settings)
        for name, settings in stages.items()
        if (folder / name / "metrics.jsonl").exists()
    ]


def _summarise_stage(folder: Path, name: str, settings: dict[str, Any]) -> StageSummary:
    lines = list(read_metrics(StageFolder(folder / name).metrics))
    steps = [line for line in lines if line["event"] == "steps"]
    measured = [line for line in lines if "dev" in line]
    epochs = [line for line in lines if line["event"] == "epoch"]
    best = max(measured, key=lambda line: float(line["dev"]["sum"]), default=None)
    ends = [line for line in lines if line["event"] == "end"]
    return StageSummary(
        run=folder.name,
        stage=name,
        kind=str(settings.get("kind", "")),
        state=ends[-1]["reason"] if ends else "not finished",
        epochs=f"{len(epochs)}/{settings.get('epochs', '?')}",
        step=max((int(line["step"]) for line in lines if "step" in line), default=0),
        loss=float(steps[-1]["loss"]) if steps else None,
        best=None if best is None else best["dev"],
        best_epoch=None if best is None else int(best["epoch"]) + 1,
        minutes=max((float(line["seconds"]) for line in lines if "seconds" in line), default=0.0) / 60,
        settings=settings,
    )


def differing_settings(summaries: Sequence[StageSummary]) -> dict[str, list[Any]]:
    """Settings in which stages of the same kind differ: the name, and each one's value."""
    flat = [_flatten(summary.settings) for summary in summaries]
    names = list(dict.fromkeys(name for settings in flat for name in settings))
    rows = {name: [settings.get(name) for settings in flat] for name in names}
    return {name: values for name, values in rows.items() if any(value != values[0] for value in values[1:])}


def _flatten(settings: dict[str, Any], place: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in settings.items():
        if isinstance(value, dict):
            flat.update(_flatten(value, f"{place}{key}."))
        else:
            flat[f"{place}{key}"] = value
    return flat
