"""Several processes: one batch, its pairs shared out, negatives gathered across all of them.

Started by torchrun. Each process encodes its part of the batch's captions and their images. Encoded sentences are
gathered (differentiably), so that a process scores its images against all captions of the batch; the rows of scores
are gathered in turn, and every process computes the whole batch's loss. Each of the R processes thus has the full
loss once, the backward pass through a gathering adds up all processes' gradients, and
DistributedDataParallel's mean divides by R: what remains is the gradient that one process would have.

An image whose captions fall into two parts is a row in both: it is counted once, where it comes first.
"""

import importlib
import os
from dataclasses import fields, is_dataclass, replace
from datetime import timedelta
from types import TracebackType
from typing import Any, TypeVar, cast
from weakref import WeakSet

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from smlstm.matching.batch import Batch
from smlstm.matching.matcher import Matcher
from smlstm.model import ObjectiveConfig
from smlstm.model.objective import ranking_loss, regulariser
from smlstm.training.examples import Integers
from smlstm.training.step import TrainingBatch, add_phrases, encode_sentences, score_grid, wants_maps

Some = TypeVar("Some", bound=Batch)


class Processes:
    """Who we are among how many; one, unless torchrun started us."""

    def __init__(self) -> None:
        self.size = int(os.environ.get("WORLD_SIZE", "1"))
        self.rank = int(os.environ.get("RANK", "0"))
        self._group: dist.ProcessGroup | None = None
        self._shared: WeakSet[DistributedDataParallel] = WeakSet()

    def __enter__(self) -> "Processes":
        if self.size > 1 and not dist.is_initialized():
            # DistributedDataParallel imports it, and its functions keep the group that is there when it is imported.
            importlib.import_module("torch.distributed.nn.functional")
            # The others wait while the first one reads captions with a language model, which may take an hour.
            dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo", timeout=timedelta(hours=12))
            self._group = dist.distributed_c10d._get_default_group()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._group is None:
            return
        dist.destroy_process_group()
        # Whoever holds a group last waits for its threads, which may be waiting for Python's lock. Python itself gives
        # the lock away meanwhile; the inside of a DistributedDataParallel would not, and waits for ever. And a group
        # that lives until the program ends takes it down when one of its threads then asks for the lock.
        for shared in self._shared:
            for name in ("reducer", "logger", "process_group"):
                vars(shared).pop(name, None)
        self._group = None

    @property
    def first(self) -> bool:
        """Whether this one writes and prints."""
        return self.rank == 0

    def agree(self, value: bool) -> bool:
        """The first process's answer, for all: a clock or a Ctrl-C must stop them at the same step."""
        return bool(self.agree_on(int(value)))

    def agree_on(self, value: float) -> float:
        """The first process's number, for all."""
        if self.size == 1:
            return value
        answer = torch.tensor([float(value)], dtype=torch.float64, device=_device())
        dist.broadcast(answer, src=0)
        return float(answer.item())

    def wait(self) -> None:
        """Until all are here."""
        if self.size > 1:
            dist.barrier()

    def part(self, captions: Integers) -> Integers:
        """Our share of a batch."""
        return captions[self.rank * len(captions) // self.size : (self.rank + 1) * len(captions) // self.size]

    def share(self, loss: nn.Module) -> nn.Module:
        """A loss whose gradients are averaged across processes."""
        if self.size == 1:
            return loss
        shared = DistributedDataParallel(loss)
        self._shared.add(shared)
        return shared


class SharedBatchLoss(nn.Module):
    """The loss of a whole batch of which this process has a part."""

    def __init__(self, matcher: Matcher, objective: ObjectiveConfig, phrases: float = 0.0) -> None:
        super().__init__()
        self.matcher = matcher
        self.objective = objective
        self._phrases = phrases

    def forward(self, batch: TrainingBatch, generator: torch.Generator | None = None) -> Tensor:
        """Ranking loss and weighted regulariser; 2."""
        own = self.matcher.encode_images(batch.features)
        said = encode_sentences(self.matcher, batch.tokens)
        sentences, first_column = gather_batch(said)
        columns = torch.arange(len(batch.image_of), device=batch.image_of.device) + first_column
        matched = torch.stack([batch.image_of, columns], 1)
        maps = wants_maps(self.matcher, self.objective)
        scores, saliency = score_grid(self.matcher, own, sentences, matched if maps else None)
        row_images, column_images = gather_rows(batch.images), gather_rows(batch.images[batch.image_of])
        once = _first_places(row_images)
        ranked = [
            ranking_loss(gather_rows(term.float())[once], row_images[once], column_images, self.objective, generator)
            for term in scores.unbind(2)
        ]
        ranking = torch.stack(ranked).mean()
        if saliency is None:
            return self._with_phrases(torch.stack([ranking, torch.zeros_like(ranking)]), own, said, batch)
        # A mean over our matched pairs: it counts by how many of all of them are ours.
        words = batch.tokens.mask
        words = torch.cat([words, words.new_zeros(len(words), saliency.sentence.shape[2] - words.shape[1])], 1)
        share = regulariser(saliency, words, self.objective) * (len(columns) / len(column_images))
        return self._with_phrases(torch.stack([ranking, gather_rows(share[None]).sum()]), own, said, batch)

    def _with_phrases(self, found: Tensor, own: Batch, said: Batch, batch: TrainingBatch) -> Tensor:
        """Phrases are ranked among the photos of each process: gradients are averaged in any case."""
        return add_phrases(found, self.matcher, own, said, batch.phrases, self.objective, self._phrases)


def gather_rows(tensor: Tensor) -> Tensor:
    """All processes' rows one behind the other, differentiably; their numbers may differ."""
    counts = _counts(len(tensor))
    longest = max(counts)
    padded = torch.cat([tensor, tensor.new_zeros(longest - len(tensor), *tensor.shape[1:])])
    parts = cast(tuple[Tensor, ...], _Gathered.apply(padded.contiguous()))  # type: ignore[no-untyped-call]
    return torch.cat([part[:count] for part, count in zip(parts, counts, strict=True)])


class _Gathered(torch.autograd.Function):
    """Every process's tensor; what all of them make of ours comes back as its gradient."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor) -> tuple[Tensor, ...]:
        parts = [torch.empty_like(tensor) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, tensor)
        return tuple(parts)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        added = torch.stack(gradients)
        dist.all_reduce(added)
        return added[dist.get_rank()]


def gather_batch(batch: Some) -> tuple[Some, int]:
    """All processes' encoded sentences, and the place of our first among them; words are padded to the longest."""
    counts = _counts(len(batch))
    first = sum(counts[: dist.get_rank()])
    return cast(Some, _gather(batch)), first


def _gather(value: Any) -> Any:
    if isinstance(value, Tensor):
        if value.dim() > 1:
            widest = max(_counts(value.shape[1]))
            padding = value.new_zeros(len(value), widest - value.shape[1], *value.shape[2:])
            value = torch.cat([value, padding], 1)
        return gather_rows(value.to(torch.uint8)).bool() if value.dtype is torch.bool else gather_rows(value)
    if is_dataclass(value) and isinstance(value, Batch):
        return replace(value, **{field.name: _gather(getattr(value, field.name)) for field in fields(value)})
    if isinstance(value, tuple):
        return tuple(_gather(part) for part in value)
    return value


def _device() -> torch.device:
    """Where numbers must be to travel."""
    return torch.device("cuda" if dist.get_backend() == "nccl" else "cpu")


def _counts(count: int) -> list[int]:
    """A number of each process."""
    mine = torch.tensor([count], device=_device())
    found = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
    dist.all_gather(found, mine)
    return [int(number) for number in found]


def _first_places(images: Tensor) -> Tensor:
    """Where each image comes for the first time, in order."""
    seen: dict[int, int] = {}
    for place, image in enumerate(images.tolist()):
        seen.setdefault(image, place)
    return torch.tensor(list(seen.values()), dtype=torch.long, device=images.device)
