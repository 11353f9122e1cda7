"""Learning rates, the optimiser, and the moving average of weights."""

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
    left = {"cosine": 0.5 * (1 + math.cos(math.pi * passed)), "linear": 1 - passed, "none": 1.0}[stage.decay]
    share = left if stage.decay == "none" else stage.final_share + (1 - stage.final_share) * left
    return stage.learning_rate * share


def make_optimiser(stage: StageConfig, model: nn.Module) -> torch.optim.Optimizer:
    """Adam or AdamW; biases and word vectors are not decayed."""
    decayed: list[Tensor] = []
    plain: list[Tensor] = []
    for name, parameter in model.named_parameters():
        (plain if parameter.dim() < 2 or "embedding" in name else decayed).append(parameter)
    groups = [{"params": decayed, "weight_decay": stage.weight_decay}, {"params": plain, "weight_decay": 0.0}]
    optimiser = torch.optim.AdamW if stage.optimiser == "adamw" else torch.optim.Adam
    return optimiser([group for group in groups if group["params"]], lr=stage.learning_rate)


class MovingAverage:
    """Exponential moving average of weights; at first over few steps, so that the random start is forgotten."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        self._decay, self._updates = decay, 0
        self._model = model
        self._average = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}

    @torch.no_grad()
    def update(self) -> None:
        """Move towards the weights as they are now."""
        self._updates += 1
        decay = min(self._decay, self._updates / (self._updates + 9))
        weights = dict(self._model.named_parameters())
        torch._foreach_lerp_(
            list(self._average.values()), [weights[name].detach() for name in self._average], 1 - decay
        )

    @torch.no_grad()
    def swap(self) -> None:
        """Exchange the model's weights and the average."""
        for name, parameter in self._model.named_parameters():
            held = parameter.detach().clone()
            parameter.copy_(self._average[name])
            self._average[name].copy_(held)

    def state_dict(self) -> dict[str, Tensor | int]:
        """Everything, to continue from."""
        return {"updates": self._updates, **{f"average.{name}": value for name, value in self._average.items()}}

    def load_state_dict(self, state: dict[str, Tensor | int]) -> None:
        """Continue from what `state_dict` gave."""
        self._updates = int(state["updates"])
        for name, value in self._average.items():
            value.copy_(torch.as_tensor(state[f"average.{name}"]))
