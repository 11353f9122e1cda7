"""How one stage is trained, from top to bottom.

For every epoch, for every step: read batches (ahead, in a thread), loss, gradients, clip, step, average. After
every epoch: measure on dev images, keep the best model, write a checkpoint, perhaps stop early.

A step is a function of the weights before it and of its number: batch, dropout and drawn negatives are seeded by
(seed, step). So a stage that was killed goes on from its checkpoint on exactly the way it was going.
"""

import math
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from smlstm.errors import ConfigurationError, SmlstmError
from smlstm.matcher import Matcher
from smlstm.model.objective import collapse_loss
from smlstm.training.batches import Batches, seed_of
from smlstm.training.checkpoint import Checkpoint, Progress, write_checkpoint
from smlstm.training.config import StageConfig
from smlstm.training.dev import DevMetrics, dev_metrics
from smlstm.training.distributed import Processes, SharedBatchLoss
from smlstm.training.examples import Examples, Integers
from smlstm.training.folder import MetricsFile, StageFolder
from smlstm.training.mining import Miner
from smlstm.training.optimiser import MovingAverage, learning_rate, make_optimiser
from smlstm.training.prefetch import prefetch
from smlstm.training.step import BatchLoss, TrainingBatch, needs_regions
from smlstm.training.stopping import Stopping
from smlstm.training.watching import Watcher

_STUCK_LINES = 10
"""Lines of metrics in a row at the collapse value before a person is told."""


@dataclass(frozen=True)
class Stage:
    """What is trained, how, on what, and where it is kept."""

    name: str
    config: StageConfig
    matcher: Matcher
    seed: int
    folder: StageFolder
    identity: dict[str, Any]
    training: Examples
    dev: Examples
    miner: Miner | None = None
    processes: Processes = field(default_factory=Processes)


def train_stage(stage: Stage, checkpoint: Checkpoint | None, stopping: Stopping, watcher: Watcher) -> Progress:
    """Train a matcher, from the beginning or from a checkpoint, until its end or until told to stop."""
    loop = _Loop(stage, stopping, watcher)
    if checkpoint is not None:
        loop.restore(checkpoint)
    return loop.run()


class _Loop:
    def __init__(self, job: Stage, stopping: Stopping, watcher: Watcher) -> None:
        self.name, self.stage, self.matcher, self.seed = job.name, job.config, job.matcher, job.seed
        self.folder, self.identity, self.stopping, self.watcher = job.folder, job.identity, stopping, watcher
        matcher, stage = job.matcher, job.config
        self.training = job.training
        self.dev = job.dev.first_images(stage.dev_images)
        self.device = next(matcher.parameters()).device
        self.tokens = self.training.encode(matcher.vocabulary, matcher.config.max_words)
        self.batches = Batches(
            self.training.image_of,
            stage.batch_size,
            job.seed,
            together=stage.captions_together,
            grouping=job.miner,
            pool=stage.mined_pool,
        )
        self.processes = job.processes
        self.loss = _make_loss(job)
        self.optimiser = make_optimiser(stage, matcher)
        self.average = MovingAverage(matcher, stage.ema) if stage.ema else None
        self.progress = Progress()
        self.epoch_steps = max(1, len(self.batches) // stage.accumulation)
        self.steps = self.epoch_steps * stage.epochs
        self.metrics: MetricsFile
        self.pair_rate = 0.0

    def restore(self, checkpoint: Checkpoint) -> None:
        """Go on from a checkpoint."""
        self.matcher.load_state_dict(checkpoint.model)
        self.optimiser.load_state_dict(checkpoint.optimiser)
        if self.average is not None and checkpoint.average is not None:
            self.average.load_state_dict(checkpoint.average)
        self.progress = checkpoint.progress

    def run(self) -> Progress:
        """All epochs that are left."""
        first = self.processes.first
        self.metrics = MetricsFile(self.folder.metrics if first else Path(os.devnull), self.progress.metrics_bytes)
        if first:
            shutil.rmtree(self.folder.model_at_stop, ignore_errors=True)
        self.watcher.begin(self.name, self.progress.step, self.steps)
        self.clock = time.monotonic()
        self.saved_at = self.window_at = self.clock
        self.matcher.train()
        try:
            while not self.progress.finished:
                if not self._epoch():
                    if self.processes.first:
                        self._stop_here()
                    break
                self._end_epoch()
        finally:
            self.metrics.close()
        self.watcher.end(self.name, self.progress.finished or self.stopping.reason)
        return self.progress

    def _epoch(self) -> bool:
        """The steps that are left of an epoch; False if told to stop before its end."""
        progress, each = self.progress, self.stage.accumulation
        batches = prefetch(self._captions(), self._read)
        try:
            while progress.batch < self.epoch_steps * each:
                self._step([next(batches) for _ in range(min(each, len(self.batches)))])
                progress.batch += each
                if progress.step % self.stage.log_steps == 0:
                    self._log()
                if self.processes.agree(self._should_stop()):
                    return progress.batch >= self.epoch_steps * each
                if self.processes.first and time.monotonic() - self.saved_at > self.stage.checkpoint_seconds:
                    self._save()
        finally:
            batches.close()
        return True

    def _captions(self) -> Iterator[Integers]:
        return self.batches.epoch(self.progress.epoch, self.progress.batch)

    def _read(self, captions: Integers) -> TrainingBatch:
        """Features and words of a batch; runs in the thread that reads ahead."""
        captions = self.processes.part(captions)
        images, row_of = np.unique(self.training.image_of[captions], return_inverse=True)
        features = self.training.images.read(images, needs_regions(self.matcher))
        row_of = row_of.astype(np.int64)
        return TrainingBatch(features, self.tokens.select(captions), torch.from_numpy(row_of), torch.from_numpy(images))

    def _step(self, batches: list[TrainingBatch]) -> None:
        stage, progress = self.stage, self.progress
        seed = seed_of(self.seed, "step", progress.step)
        torch.manual_seed(seed + self.processes.rank)  # dropout
        generator = torch.Generator().manual_seed(seed)  # drawn negatives
        rate = learning_rate(stage, progress.step, self.steps)
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        self.optimiser.zero_grad(set_to_none=True)
        parts = torch.zeros(2)
        for batch in batches:
            with autocast(stage.precision, self.device):
                found: Tensor = self.loss(batch.to(self.device), generator)
            torch.autograd.backward(found.sum() / len(batches))
            parts += found.detach().cpu() / len(batches)
        limit = stage.clip or math.inf
        norm = float(nn.utils.clip_grad_norm_(self.matcher.parameters(), limit))
        if not math.isfinite(norm) or not bool(parts.isfinite().all()):
            raise SmlstmError(
                f"{self.name}: the loss or its gradient is not a number at step {progress.step + 1} (loss "
                f"{float(parts.sum()):.4g}); lower stage.{self.name}.learning_rate (now {stage.learning_rate:g}) or "
                "set clip; the checkpoint before it is kept"
            )
        self.optimiser.step()
        if self.average is not None:
            self.average.update()
        progress.step += 1
        pairs = sum(len(batch.image_of) * (stage.score_group or len(batch.image_of)) for batch in batches)
        for key, value in (
            ("count", 1.0), ("ranking", float(parts[0])), ("regulariser", float(parts[1])), ("norm", norm),
            ("pairs", float(pairs)),
        ):  # fmt: skip
            progress.window[key] = progress.window.get(key, 0.0) + value
        self.watcher.step(progress.step, float(parts.sum()), pairs)

    def _log(self) -> None:
        """One line for the steps since the last one."""
        progress, window = self.progress, self.progress.window
        count = window.get("count", 0.0)
        if not count:
            return
        ranking, regulariser = window["ranking"] / count, window["regulariser"] / count
        now = time.monotonic()
        self.pair_rate = window["pairs"] / max(now - self.window_at, 1e-9)
        self.window_at, progress.window = now, {}
        self._write(
            "steps",
            step=progress.step,
            epoch_progress=progress.epoch + progress.batch / (self.epoch_steps * self.stage.accumulation),
            loss=ranking + regulariser,
            ranking=ranking,
            regulariser=regulariser,
            gradient_norm=window["norm"] / count,
            learning_rate=learning_rate(self.stage, progress.step - 1, self.steps),
            pairs_per_second=self.pair_rate,
            seconds=self._seconds(),
        )
        self._watch_collapse(ranking)

    def _watch_collapse(self, ranking: float) -> None:
        collapsed = collapse_loss(self.stage.objective, (self.stage.score_group or self.batches.size) - 1)
        self.progress.stuck = self.progress.stuck + 1 if abs(ranking - collapsed) < 0.02 * collapsed else 0
        if self.progress.stuck == _STUCK_LINES:
            text = (
                f"{self.name}: the loss has stayed at {collapsed:.4g} for {_STUCK_LINES * self.stage.log_steps} steps. "
                "That is the loss of a model which gives every pair the same score: it learns nothing. Lower "
                "learning_rate, lengthen warmup_steps, start from an MNLM (start_from), or take the product comparison"
            )
            self._write("collapse", step=self.progress.step, text=text)
            self.watcher.notice(text)

    def _end_epoch(self) -> None:
        """Measure, keep the best, decide whether to go on."""
        progress, stage = self.progress, self.stage
        self._log()
        progress.window = {}
        if self.processes.first:
            self._measure_epoch()
        progress.best = self.processes.agree_on(progress.best)
        progress.best_epoch = int(self.processes.agree_on(progress.best_epoch))
        progress.epoch, progress.batch = progress.epoch + 1, 0
        if progress.epoch >= stage.epochs:
            progress.finished = "all epochs are done"
        elif stage.patience and progress.epoch - 1 - progress.best_epoch >= stage.patience:
            progress.finished = f"no better dev Sum for {stage.patience} epochs"
        if self.processes.first:
            self._save()

    def _measure_epoch(self) -> None:
        progress = self.progress
        found, took = self._measure()
        better = found.sum > progress.best
        if better:
            progress.best, progress.best_epoch = found.sum, progress.epoch
            self._save_model(self.folder.model)
        self._write(
            "epoch", epoch=progress.epoch, step=progress.step, dev=found.to_dict(), best=better,
            dev_seconds=took, seconds=self._seconds(),
        )  # fmt: skip
        self.watcher.dev(self.name, progress.epoch, found, better)

    def _stop_here(self) -> None:
        """Leave a checkpoint; if the clock stopped us, also say how good the model is by now."""
        self._save()
        if self.stopping.interrupted:
            return
        found, _ = self._measure()
        better = found.sum > self.progress.best
        # Behind the checkpoint's end of the metrics: when the run goes on, this line is cut off.
        self._write("stopped", epoch=self.progress.epoch, step=self.progress.step, dev=found.to_dict(), best=better)
        if better:
            self._save_model(self.folder.model_at_stop)
        self.metrics.sync()
        self.watcher.dev(self.name, self.progress.epoch, found, better)

    def _measure(self) -> tuple[DevMetrics, float]:
        begin = time.monotonic()
        if self.average is not None:
            self.average.swap()
        found = dev_metrics(self.matcher, self.dev)
        if self.average is not None:
            self.average.swap()
        self.dev_seconds = time.monotonic() - begin
        return found, self.dev_seconds

    dev_seconds = 0.0

    def _should_stop(self) -> bool:
        """Whether time is up, less what measuring will take."""
        dev_pairs = len(self.dev) * len(np.unique(self.dev.image_of))
        # Scoring is about a third of a training step's work.
        reserve = self.dev_seconds or dev_pairs / (3 * self.pair_rate) if self.pair_rate else 0.0
        return bool(self.stopping.reason) or self.stopping.seconds_left < reserve

    def _save_model(self, folder: Path) -> None:
        if self.average is not None:
            self.average.swap()
        self.matcher.save(folder)
        if self.average is not None:
            self.average.swap()

    def _save(self) -> None:
        self.progress.seconds = self._seconds()
        self.clock = self.saved_at = time.monotonic()
        self.progress.metrics_bytes = self.metrics.sync()
        average = None if self.average is None else self.average.state_dict()
        write_checkpoint(
            self.folder.checkpoint,
            Checkpoint(self.progress, self.identity, self.matcher.state_dict(), self.optimiser.state_dict(), average),
        )

    def _seconds(self) -> float:
        """Time spent on this stage, in all its sessions."""
        return self.progress.seconds + time.monotonic() - self.clock

    def _write(self, event: str, **fields: object) -> None:
        self.metrics.write(event, **fields)
        self.watcher.metrics(self.name, self.progress.step, {"event": event, **fields})


def _make_loss(job: Stage) -> nn.Module:
    """The loss of a batch, or of our part of one."""
    group, size = job.config.score_group, job.processes.size
    if size == 1:
        return BatchLoss(job.matcher, job.config.objective, group)
    if group is None:
        return job.processes.share(SharedBatchLoss(job.matcher, job.config.objective))
    # Pairs within groups need nothing from other processes, if no group is cut.
    if job.config.batch_size // group % size:
        raise ConfigurationError(
            f"stage.{job.name}: {job.config.batch_size // group} groups a batch cannot be shared by {size} processes "
            "evenly; change batch_size or score_group"
        )
    return job.processes.share(BatchLoss(job.matcher, job.config.objective, group))


def autocast(precision: str, device: torch.device) -> AbstractContextManager[object]:
    """Products in bfloat16 where that is wanted, or wise."""
    if precision == "float32" or (precision == "auto" and not multiplies_bfloat16(device)):
        return nullcontext()
    return torch.autocast(device.type, dtype=torch.bfloat16)


def multiplies_bfloat16(device: torch.device) -> bool:
    """Whether a device has instructions for bfloat16, rather than a slow imitation."""
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported())
    if device.type != "cpu":
        return False
    return any(
        bool(getattr(torch.cpu, name)()) for name in ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
        if hasattr(torch.cpu, name)
    )  # fmt: skip
