"""Learning rates and the optimiser."""

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from smlstm.training.config import StageConfig
from smlstm.vision.tuning import Tail


def learning_rate(stage: StageConfig, step: int, steps: int) -> float:
    """The rate of a step (from 0) out of all steps: a function, so there is no schedule to lose."""
    warmup = min(stage.warmup_steps, max(1, steps // 2))
    if step < warmup:
        return stage.learning_rate * (step + 1) / warmup
    passed = (step - warmup) / max(1, steps - warmup)
    left = 0.5 * (1 + math.cos(math.pi * passed))
    return stage.learning_rate * (stage.final_share + (1 - stage.final_share) * left)


def make_optimiser(stage: StageConfig, model: nn.Module, tail: Tail | None = None) -> torch.optim.Optimizer:
    """AdamW; biases and word vectors are not decayed. A backbone's tail learns at a share of the stage's rate."""
    groups = _groups(model.named_parameters(), stage.weight_decay, 1.0)
    if tail is not None:
        assert stage.tuning is not None
        share = stage.tuning.learning_rate / stage.learning_rate
        groups += _groups(tail.learned().items(), stage.tuning.weight_decay, share)
    return torch.optim.AdamW(groups, lr=stage.learning_rate)


def set_rate(optimiser: torch.optim.Optimizer, rate: float) -> None:
    """Give every group its share of a rate."""
    for group in optimiser.param_groups:
        group["lr"] = rate * group.get("share", 1.0)  # checkpoints of 0.1 have groups without


def _groups(parameters: Iterable[tuple[str, nn.Parameter]], weight_decay: float, share: float) -> list[dict[str, Any]]:
    decayed: list[Tensor] = []
    plain: list[Tensor] = []
    for name, parameter in parameters:
        (plain if parameter.dim() < 2 or "embedding" in name else decayed).append(parameter)
    groups = [{"params": decayed, "weight_decay": weight_decay}, {"params": plain, "weight_decay": 0.0}]
    return [{**group, "share": share} for group in groups if group["params"]]
