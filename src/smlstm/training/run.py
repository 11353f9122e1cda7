"""A run: its stages one after the other, in one folder."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from pydantic import BaseModel

from smlstm.data.lock import WriterLock
from smlstm.device import choose_device
from smlstm.errors import ConfigurationError
from smlstm.matching.matcher import Matcher
from smlstm.saving import KINDS
from smlstm.training.batches import seed_of
from smlstm.training.checkpoint import Checkpoint, difference, read_checkpoint
from smlstm.training.config import RunConfig, StageConfig
from smlstm.training.curves import draw_curves
from smlstm.training.data_config import DataConfig
from smlstm.training.distributed import Processes
from smlstm.training.folder import RunFolder, StageFolder, read_metrics
from smlstm.training.loop import TIME_IS_UP, train_stage
from smlstm.training.make_pair import make_pair
from smlstm.training.memory import keep_freed_memory
from smlstm.training.reading import ReadingStoppedError
from smlstm.training.removed import without_removed
from smlstm.training.sources import Source, Sources
from smlstm.training.stage import Stage
from smlstm.training.stopping import Stopping
from smlstm.training.transfer import start_from_model
from smlstm.training.tuning import make_tail, spec_above
from smlstm.training.watchers import Watcher
from smlstm.vision.tuning import Tail


@dataclass(frozen=True)
class StageResult:
    """How a stage ended."""

    stage: str
    reason: str
    """Why it ended, or why it stopped before its end."""
    finished: bool
    best: dict[str, Any] | None
    """The line of the metrics with the best dev Sum; None if nothing was measured."""


def train(
    config: RunConfig,
    folder: str | Path,
    *,
    stages: Sequence[str] | None = None,
    minutes: float | None = None,
    fresh: bool = False,
    watcher: Watcher | None = None,
) -> list[StageResult]:
    """Train the stages of a run, or some of them; what was begun in this folder is continued.

    `minutes` ends training in time with a checkpoint; so does Ctrl-C. `fresh` forgets what the folder has of
    the stages. A stage that another process trains in this folder is refused.
    """
    keep_freed_memory()
    with Processes() as processes, Stopping(minutes) as stopping:
        watcher = watcher if watcher is not None and processes.first else Watcher()
        return _train(
            config, RunFolder(Path(folder)), _chosen(config, stages), fresh, _Helpers(processes, stopping, watcher)
        )


@dataclass(frozen=True)
class _Helpers:
    processes: Processes
    stopping: Stopping
    watcher: Watcher


def _train(config: RunConfig, run: RunFolder, names: list[str], fresh: bool, helpers: _Helpers) -> list[StageResult]:
    processes, watcher = helpers.processes, helpers.watcher
    checkpoints = {name: _find_checkpoint(config, name, run.stage(name), fresh) for name in names}
    device = choose_device(config.device)
    torch.use_deterministic_algorithms(True, warn_only=True)
    # Nothing reads memory before it is written, and filling it took a tenth of a step.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    sources = Sources(config, run, processes, helpers.stopping, watcher)
    for name in names:
        if config.stage[name].tuning is not None and processes.size > 1:
            raise ConfigurationError(
                f"stage {name} tunes a backbone, which runs in one process: start it without torchrun"
            )
        if config.stage[name].stepped_captions is not None and processes.size > 1:
            raise ConfigurationError(
                f"stage {name} has stepped_captions, which one process understands: leave it out, or torchrun"
            )
        sources.check(name)
    processes.wait()  # all have looked for checkpoints before any folder changes
    world = World(config, run, sources, helpers)
    with ExitStack() as locks:
        if processes.first:
            run.path.mkdir(parents=True, exist_ok=True)
            for name in names:
                locks.callback(WriterLock(run.path / f".{name}.lock").release)
            run.begin(config)
        return _train_stages(world, checkpoints, fresh, device)


def _train_stages(
    world: "World", checkpoints: dict[str, Checkpoint | None], fresh: bool, device: torch.device
) -> list[StageResult]:
    config, run = world.config, world.run
    processes, stopping, watcher = world.helpers.processes, world.helpers.stopping, world.helpers.watcher
    results: list[StageResult] = []
    for name, checkpoint in checkpoints.items():
        place = run.stage(name)
        if processes.first:
            place.begin(fresh)
        if checkpoint is None or not checkpoint.progress.finished:
            try:
                progress = train_stage(world.stage(name, device, new=checkpoint is None), checkpoint, stopping, watcher)
            except ReadingStoppedError as error:
                return [*results, StageResult(name, str(error), False, best_line(place))]
            reason, finished = progress.finished or stopping.reason or TIME_IS_UP, bool(progress.finished)
        else:
            reason, finished = checkpoint.progress.finished, True
        results.append(StageResult(name, reason, finished, best_line(place)))
        if processes.first:
            if place.best_model.exists():
                run.show_model(name)
            draw_curves(run.path, list(config.stage))
        processes.wait()  # the next stage may start from this one's model
        if not finished:
            return results
    if config.pair is not None and processes.first and all(_finished(run.stage(name)) for name in config.stage):
        make_pair(config, config.pair, run, world.sources, device, watcher)
    return results


def identity(config: RunConfig, name: str) -> dict[str, Any]:
    """What makes a stage's steps what they are: with another of these, a checkpoint does not fit."""
    whole = config.model_dump(mode="json", exclude={"name", "device", "stage", "pair"})
    unread = _unread(config.stage[name])
    whole["data"] = dict(enumerate_as_text([_without(entry, unread) for entry in whole["data"]]))
    return {**whole, "stage": {name: config.stage[name].model_dump(mode="json", exclude={"checkpoint_seconds"})}}


def _unread(stage: StageConfig) -> set[str]:
    """Where features are that a stage does not read."""
    if stage.features is not None:
        return {"features", "views", "lower", "dev_lower"}
    return {"lower", "dev_lower"} if stage.tuning is None else {"features", "views"}


def _without(table: dict[str, Any], keys: set[str]) -> dict[str, Any]:
    return {key: value for key, value in table.items() if key not in keys}


def enumerate_as_text(items: Sequence[Any]) -> list[tuple[str, Any]]:
    """Number items from 0, so that a difference can name its place as `--set` does."""
    return [(str(number), item) for number, item in enumerate(items)]


def best_line(place: StageFolder) -> dict[str, Any] | None:
    """The measured epoch with the best dev Sum."""
    measured = [line for line in read_metrics(place.metrics) if "dev" in line]
    return max(measured, key=lambda line: float(line["dev"]["sum"]), default=None)


def _chosen(config: RunConfig, stages: Sequence[str] | None) -> list[str]:
    unknown = [name for name in stages or () if name not in config.stage]
    if unknown:
        raise ConfigurationError(f'there is no stage "{unknown[0]}"; this run has {", ".join(config.stage)}')
    return [name for name in config.stage if stages is None or not stages or name in stages]


def _find_checkpoint(config: RunConfig, name: str, place: StageFolder, fresh: bool) -> Checkpoint | None:
    if fresh or not place.checkpoint.exists():
        return None
    checkpoint = read_checkpoint(place.checkpoint)
    found = changed_since(checkpoint.identity, config, name)
    if found:
        raise ConfigurationError(
            f"{place.path} holds a run of another configuration: {found}. Give --out another folder, "
            "or --fresh to start this one again"
        )
    return checkpoint


def changed_since(found: dict[str, Any], config: RunConfig, name: str) -> str | None:
    """The first setting in which a stage's identity, as it was written once, is not its configuration's."""
    wanted = identity(config, name)
    found, gone = without_removed(found)
    return gone[0] if gone else difference(_with_defaults(found, wanted, name, config), wanted)


def _with_defaults(found: dict[str, Any], wanted: dict[str, Any], name: str, config: RunConfig) -> dict[str, Any]:
    """A checkpoint's identity with the settings that did not exist yet when it was written, as they were then."""
    stage, kind = found.get("stage", {}).get(name, {}), KINDS[config.stage[name].kind]
    model = _filled(stage.get("model", {}), kind.config_type, wanted["stage"][name]["model"])
    data = {
        number: _filled(part, DataConfig, wanted["data"].get(number, {}))
        for number, part in found.get("data", {}).items()
    }
    return {
        **found,
        "data": data,
        "stage": {name: {**_filled(stage, StageConfig, wanted["stage"][name]), "model": model}},
    }


def _filled(written: dict[str, Any], kind: type[BaseModel], wanted: dict[str, Any]) -> dict[str, Any]:
    """What was written, with the defaults of optional settings that are wanted now."""
    missing = {key: field for key, field in kind.model_fields.items() if key in wanted and key not in written}
    defaults = {key: field.get_default() for key, field in missing.items() if not field.is_required()}
    return {**written, **defaults}


def _finished(place: StageFolder) -> bool:
    return place.checkpoint.exists() and bool(read_checkpoint(place.checkpoint).progress.finished)


@dataclass(frozen=True)
class World:
    """What all stages of a run share."""

    config: RunConfig
    run: RunFolder
    sources: Sources
    helpers: _Helpers

    def stage(self, name: str, device: torch.device, new: bool) -> Stage:
        """A stage with its matcher as it starts; `new`: not one whose weights will come from a checkpoint."""
        config, source = self.config.stage[name], self.sources.of(name)
        tail = None if config.tuning is None else make_tail(source.training.images.spec)
        return Stage(
            name=name,
            config=config,
            matcher=self._matcher(name, source, tail, new).to(device),
            seed=seed_of(self.config.seed, name),
            folder=self.run.stage(name),
            identity=identity(self.config, name),
            training=source.training,
            dev=source.dev,
            processes=self.helpers.processes,
            tail=None if tail is None else tail.to(device),
        )

    def _matcher(self, name: str, source: Source, tail: Tail | None, new: bool) -> Matcher:
        stage, spec = self.config.stage[name], source.training.images.spec
        if tail is not None:
            spec = spec_above(tail, spec, source.dev.images.spec)
        settings = stage.matcher_config(spec)
        torch.manual_seed(seed_of(self.config.seed, name, "start"))
        matcher = KINDS[stage.kind](settings, source.vocabulary)
        matcher.tuned = source.tuned
        for start in stage.sources if new else ():
            trained = _load(start, self.run)
            # Parts, not every tensor of theirs.
            parts = dict.fromkeys(
                taken.partition(".")[0].replace("_", " ") for taken in start_from_model(matcher, trained)
            )
            if tail is None and trained.config.backbone not in ("", matcher.config.backbone):
                self.helpers.watcher.notice(
                    f"{name} starts from a {trained.kind} of {trained.config.backbone}, but reads features of "
                    f"{matcher.config.backbone}: what it knows of regions does not hold there"
                )
            if tail is not None and trained.tuned is not None:
                tail.take(trained.tuned)
                parts["backbone"] = None
            self.helpers.watcher.notice(f"{name} starts from a trained {trained.kind}: {', '.join(parts)}")
        return matcher


def _load(source: str, run: RunFolder) -> Matcher:
    """A saved model, or the best one of an earlier stage."""
    folder = Path(source) if Path(source).is_absolute() else run.trained(source)
    return Matcher.load(folder / "model" if (folder / "model").is_dir() else folder)
