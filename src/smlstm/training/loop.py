"""How one stage is trained, from top to bottom.

For every epoch, for every step: read a batch (ahead, in a thread), loss, gradients, clip, step. After
every epoch: measure on dev images, keep the best model, write a checkpoint, perhaps stop early.

A step is a function of the weights before it and of its number: batch, dropout and drawn negatives are seeded by
(seed, step). So a stage that was killed goes on from its checkpoint on exactly the way it was going.
"""

import math
import os
import shutil
import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from smlstm.errors import ConfigurationError, SmlstmError
from smlstm.model import MNLM, SMLSTM
from smlstm.scoring import choose_precision
from smlstm.training.augmentation import cover_regions, drop_regions, drop_words
from smlstm.training.batches import Batches, seed_of
from smlstm.training.checkpoint import Checkpoint, Progress, write_checkpoint
from smlstm.training.dev import DevMetrics, dev_metrics
from smlstm.training.distributed import SharedBatchLoss
from smlstm.training.examples import CaptionTokens, Integers
from smlstm.training.metrics_log import MetricsLog
from smlstm.training.optimiser import learning_rate, make_optimiser, set_rate
from smlstm.training.phrases import CaptionPhrases
from smlstm.training.prefetch import prefetch
from smlstm.training.reading import encode_captions
from smlstm.training.stage import Stage
from smlstm.training.step import BatchLoss, TrainingBatch, needs_regions
from smlstm.training.stopping import Stopping
from smlstm.training.tuning import as_saved, keep_tuned, seen_through
from smlstm.training.watchers import Watcher

TIME_IS_UP = "time is up"


def train_stage(stage: Stage, checkpoint: Checkpoint | None, stopping: Stopping, watcher: Watcher) -> Progress:
    """Train a matcher, from the beginning or from a checkpoint, until its end or until told to stop."""
    loop = _Loop(stage, stopping, watcher)
    if checkpoint is not None:
        loop.restore(checkpoint)
    return loop.run()


class _Loop:
    def __init__(self, job: Stage, stopping: Stopping, watcher: Watcher) -> None:
        self.name, self.stage, self.matcher, self.seed = job.name, job.config, job.matcher, job.seed
        self.folder, self.identity, self.processes = job.folder, job.identity, job.processes
        self.stopping, self.watcher = stopping, watcher
        matcher, stage, self.tail = job.matcher, job.config, job.tail
        self.tunes = stage.tuning is not None and stage.tuning.learning_rate > 0
        self.device = next(matcher.parameters()).device
        self.training, self.dev = job.training, job.dev.some_images(stage.dev_images)
        self.tokens = encode_captions(
            matcher, self.training, job.folder.sentences, processes=job.processes, stopping=stopping, watcher=watcher
        )
        spec = self.training.images.spec
        regions = spec.regions if self.tail is None else self.tail.shape(spec.regions, spec.region_width)[0]
        self.side = math.isqrt(regions)
        self.phrases = self._phrases(job) if stage.phrases else None
        self.batches = Batches(
            self.training.image_of,
            stage.batch_size,
            job.seed,
            together=stage.captions_together,
            most=stage.epoch_batches,
        )
        self.loss = _make_loss(job)
        self.optimiser = make_optimiser(stage, matcher, self.tail if self.tunes else None)
        self.progress = Progress()
        self.metrics = MetricsLog(job.name, stage, self.batches.size - 1, watcher)
        self.steps = len(self.batches) * stage.epochs
        self.dev_seconds = 0.0

    def _phrases(self, job: Stage) -> tuple[CaptionPhrases, CaptionTokens]:
        """Phrases of the training captions, encoded."""
        phrases = CaptionPhrases(self.training, boxes=self.stage.boxes, limit=self.matcher.config.max_words)
        tokens = encode_captions(
            self.matcher,
            phrases.examples(self.training),
            job.folder.sentences,
            processes=job.processes,
            stopping=self.stopping,
            watcher=self.watcher,
        )
        return phrases, tokens

    def restore(self, checkpoint: Checkpoint) -> None:
        """Go on from a checkpoint."""
        backbone = self.matcher.config.backbone
        if self.tail is None and checkpoint.backbone not in ("", backbone):
            raise ConfigurationError(
                f"{self.name} was trained on features of {checkpoint.backbone}, now they are of {backbone}, which was "
                f"tuned further: train it again with --fresh --stage {self.name}"
            )
        self.matcher.load_state_dict(checkpoint.model)
        if self.tail is not None and checkpoint.tail is not None:
            self.tail.take(checkpoint.tail)
        self.optimiser.load_state_dict(checkpoint.optimiser)
        self.progress = checkpoint.progress

    def run(self) -> Progress:
        """All epochs that are left."""
        first = self.processes.first
        if first:
            shutil.rmtree(self.folder.model_at_stop, ignore_errors=True)
        self.metrics.open(self.folder.metrics if first else Path(os.devnull), self.progress)
        self.watcher.begin(self.name, self.progress.step, self.steps)
        self.saved_at = time.monotonic()
        self.matcher.train()
        try:
            while not self.progress.finished:
                if not self._epoch():
                    if first:
                        self._stop_here()
                    break
                self._end_epoch()
        finally:
            self.metrics.close()
        self.watcher.end(self.name, self.progress.finished or self.stopping.reason or TIME_IS_UP)
        return self.progress

    def _epoch(self) -> bool:
        """The steps that are left of an epoch; False if told to stop before its end."""
        progress = self.progress
        batches = prefetch(self.batches.epoch(progress.epoch, progress.batch), self._read)
        try:
            while progress.batch < len(self.batches):
                if self.processes.agree(self._should_stop()):
                    return False
                self._step(next(batches))
                progress.batch += 1
                if progress.step % self.stage.log_steps == 0:
                    self._line()
                if self.processes.first and time.monotonic() - self.saved_at > self.stage.checkpoint_seconds:
                    self._save()
        finally:
            batches.close()
        return True

    def _read(self, captions: Integers) -> TrainingBatch:
        """Features and words of a batch; runs in the thread that reads ahead."""
        captions = self.processes.part(captions)
        images, row_of = np.unique(self.training.image_of[captions], return_inverse=True)
        with_regions = self.tail is not None or needs_regions(self.matcher) or self.stage.region_dropout > 0
        # A batch has its own draws wherever and whenever it is read: the same captions never meet twice.
        draws = np.random.default_rng(seed_of(self.seed, "mirror", captions.tobytes().hex()))
        views = draws.random(len(images))
        features = self.training.images.read(images, with_regions, views)
        row_of = row_of.astype(np.int64)
        phrases = None
        if self.phrases is not None:
            bank, tokens = self.phrases
            phrases = bank.batch(
                images,
                captions,
                row_of,
                tokens,
                parts=self.training.images.parts(images, views),
                side=self.side,
                in_captions=self.matcher.reads_phrases,
                draws=draws,
            )
        tokens_of = self.tokens.select(captions)
        return TrainingBatch(features, tokens_of, torch.from_numpy(row_of), torch.from_numpy(images), phrases)

    def _step(self, batch: TrainingBatch) -> None:
        stage, progress = self.stage, self.progress
        seed = seed_of(self.seed, "step", progress.step)
        torch.manual_seed(seed + self.processes.rank)  # dropout of units, regions and words
        generator = torch.Generator().manual_seed(seed)  # drawn negatives
        set_rate(self.optimiser, learning_rate(stage, progress.step, self.steps))
        self.optimiser.zero_grad(set_to_none=True)
        with autocast(stage.precision, self.device):
            seen = self._seen(batch.to(self.device))
            found: Tensor = self.loss(self._disturbed(seen), generator)
        torch.autograd.backward(found.sum())
        parts = found.detach().cpu()
        norm = self._clipped_norm()
        if not math.isfinite(norm) or not bool(parts.isfinite().all()):
            raise SmlstmError(
                f"{self.name}: the loss or its gradient is not a number at step {progress.step + 1} (loss "
                f"{float(parts.sum()):.4g}); lower stage.{self.name}.learning_rate (now {stage.learning_rate:g}) or "
                "set clip; the checkpoint before it is kept"
            )
        self.optimiser.step()
        progress.step += 1
        pairs = len(batch.images) * len(batch.image_of) * self.processes.size
        self.metrics.step(float(parts[0]), float(parts[1]), norm, pairs)

    def _clipped_norm(self) -> float:
        """Cut the gradient to size, a backbone's by itself, so that the matcher learns as it would alone; its norm."""
        parts: list[list[nn.Parameter]] = [list(self.matcher.parameters())]
        if self.tail is not None and self.tunes:
            parts.append(list(self.tail.learned().values()))
        return math.hypot(*(float(nn.utils.clip_grad_norm_(part, self.stage.clip or math.inf)) for part in parts))

    def _seen(self, batch: TrainingBatch) -> TrainingBatch:
        """The batch with what the backbone makes of lower features by now."""
        if self.tail is None:
            return batch
        with torch.set_grad_enabled(self.tunes):
            return replace(batch, features=seen_through(self.tail, batch.features))

    def _disturbed(self, batch: TrainingBatch) -> TrainingBatch:
        """The batch as it is seen this time."""
        stage = self.stage
        if stage.region_dropout:
            searches = isinstance(self.matcher, SMLSTM) and self.matcher.search is not None
            leave_out = cover_regions if searches else drop_regions
            batch = replace(batch, features=leave_out(batch.features, stage.region_dropout))
        if stage.word_dropout:
            batch = replace(batch, tokens=drop_words(batch.tokens, stage.word_dropout))
        return batch

    def _line(self) -> None:
        progress = self.progress
        done = progress.batch / len(self.batches)
        self.metrics.line(progress.epoch + done, learning_rate(self.stage, progress.step - 1, self.steps))

    def _end_epoch(self) -> None:
        """Measure, keep the best, decide whether to go on."""
        progress, stage = self.progress, self.stage
        self._line()
        if self.processes.first:
            self._measure_epoch()
        progress.best = self.processes.agree_on(progress.best)
        progress.best_epoch = int(self.processes.agree_on(progress.best_epoch))
        progress.epoch, progress.batch = progress.epoch + 1, 0
        if progress.epoch >= stage.epochs:
            progress.finished = "all epochs are done"
        elif stage.patience and progress.epoch - 1 - progress.best_epoch >= stage.patience:
            progress.finished = f"no better dev Sum for {stage.patience} epochs"
        if progress.finished:
            self.metrics.write("end", step=progress.step, reason=progress.finished)
        if self.processes.first:
            self._save()

    def _measure_epoch(self) -> None:
        progress = self.progress
        found = self._measure()
        better = found.sum > progress.best
        if better:
            progress.best, progress.best_epoch = found.sum, progress.epoch
            self._keep(self.folder.model)
        self.metrics.write(
            "epoch",
            epoch=progress.epoch,
            step=progress.step,
            dev=found.to_dict(),
            best=better,
            dev_seconds=self.dev_seconds,
            seconds=self.metrics.seconds,
        )
        self.watcher.dev(self.name, progress.epoch, found, better)

    def _keep(self, folder: Path) -> None:
        if self.tail is not None:
            keep_tuned(self.matcher, self.tail)
        self.matcher.save(folder)

    def _stop_here(self) -> None:
        """Leave a checkpoint; if the clock stopped us in an epoch, also say how good the model is by now."""
        self._save()
        if self.stopping.interrupted or self.progress.batch == 0:
            return
        found = self._measure()
        better = found.sum > self.progress.best
        if better:
            self._keep(self.folder.model_at_stop)
        # Behind the checkpoint's end of the metrics: when the run goes on, this line is cut off.
        self.metrics.write(
            "stopped",
            epoch=self.progress.epoch,
            step=self.progress.step,
            dev=found.to_dict(),
            best=better,
            seconds=self.metrics.seconds,
        )
        self.watcher.dev(self.name, self.progress.epoch, found, better)

    def _measure(self) -> DevMetrics:
        begin = time.monotonic()
        found = dev_metrics(self.matcher, self.dev if self.tail is None else as_saved(self.tail, self.dev))
        self.dev_seconds = time.monotonic() - begin
        return found

    def _should_stop(self) -> bool:
        """Whether time is up, less what measuring will take."""
        reserve = self.dev_seconds
        if not reserve:
            # Not measured yet: encoding and scoring forwards are about a third of a step that trains on as many.
            captions, images = len(self.dev), len(np.unique(self.dev.image_of))
            size = self.batches.size
            steps = captions / size if isinstance(self.matcher, MNLM) else captions * images / size**2
            reserve = self.metrics.step_seconds * steps / 3 if self.progress.batch else 0.0
        return bool(self.stopping.reason) or self.stopping.seconds_left < reserve

    def _save(self) -> None:
        self.metrics.sync()
        write_checkpoint(
            self.folder.checkpoint,
            Checkpoint(
                self.progress,
                self.identity,
                self.matcher.state_dict(),
                self.optimiser.state_dict(),
                None if self.tail is None else {name: each.detach() for name, each in self.tail.learned().items()},
                "" if self.tail is not None else self.matcher.config.backbone,
            ),
        )
        self.saved_at = time.monotonic()


def _make_loss(job: Stage) -> nn.Module:
    """The loss of a batch, or of our part of one."""
    if job.processes.size == 1:
        config = job.config
        return BatchLoss(
            job.matcher, config.objective, phrases=config.phrases, stepped_captions=config.stepped_captions
        )
    return job.processes.share(SharedBatchLoss(job.matcher, job.config.objective, job.config.phrases))


def autocast(precision: str, device: torch.device) -> AbstractContextManager[object]:
    """Products in bfloat16 where that is wanted, or wise."""
    if choose_precision(precision, device) == torch.float32:
        return nullcontext()
    return torch.autocast(device.type, dtype=torch.bfloat16)
