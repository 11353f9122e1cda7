"""Learning rates and the optimiser."""

import math

import torch
from torch import Tensor, nn

from smlstm.training.config import StageConfig


def learning_rate(stage: StageConfig, step: int, steps: int) -> float:
    """The rate of a step (from 0) out of all steps: a function, so there is no schedule to lose."""
    warmup = min(stage.warmup_steps, max(1, steps // 2))
    if step < warmup:
        return stage.learning_rate * (step + 1) / warmup
    passed = (step - warmup) / max(1, steps - warmup)
    left = 0.5 * (1 + math.cos(math.pi * passed))
    return stage.learning_rate * (stage.final_share + (1 - stage.final_share) * left)


def make_optimiser(stage: StageConfig, model: nn.Module) -> torch.optim.Optimizer:
    """AdamW; biases and word vectors are not decayed."""
    decayed: list[Tensor] = []
    plain: list[Tensor] = []
    for name, parameter in model.named_parameters():
        (plain if parameter.dim() < 2 or "embedding" in name else decayed).append(parameter)
    groups = [{"params": decayed, "weight_decay": stage.weight_decay}, {"params": plain, "weight_decay": 0.0}]
    return torch.optim.AdamW([group for group in groups if group["params"]], lr=stage.learning_rate)
