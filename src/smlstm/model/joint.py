"""The logits of `joint` attention without ever holding pairs x candidates x units.

    f[b, n, c] = sum_a w[a] * sig(keys[b, c, a] + query[b, n, a])

Written plainly, the sigmoid's argument has a unit for every (pair, candidate): 101 x 101 pairs of 196 regions
and 1024 units are 8 GB. Here a bounded slice of it exists at a time, and the backward pass computes the slices
again instead of keeping them.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

_SLICE = 1 << 21
"""Elements of the largest temporary: 8 MB in float32, about what a core's caches hold."""


def joint_logits(keys: Tensor, query: Tensor, weight: Tensor) -> Tensor:
    """keys (B, C, A), query (B, n, A), weight (A) -> logits (B, n, C)."""
    result: Tensor = _JointLogits.apply(keys, query, weight)  # type: ignore[no-untyped-call]
    return result


def _slices(keys: Tensor, query: Tensor) -> Iterator[tuple[int, slice]]:
    """Cut the pairs of each b so that one slice of pairs x candidates x units stays small."""
    rows = max(1, _SLICE // max(1, keys.shape[1] * keys.shape[2]))
    for b in range(len(keys)):
        for start in range(0, query.shape[1], rows):
            yield b, slice(start, start + rows)


def _units(keys: Tensor, query: Tensor, b: int, rows: slice) -> Tensor:
    """The sigmoid of one slice; n', C, A."""
    return (keys[b][None] + query[b, rows][:, None]).sigmoid_()


class _JointLogits(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, keys: Tensor, query: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(keys, query, weight)
        logits = keys.new_empty(len(keys), query.shape[1], keys.shape[1])
        for b, rows in _slices(keys, query):
            logits[b, rows] = _units(keys, query, b, rows) @ weight
        return logits

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        keys, query, weight = ctx.saved_tensors
        keys_grad, query_grad = torch.zeros_like(keys), torch.empty_like(query)
        weight_grad = torch.zeros_like(weight)
        for b, rows in _slices(keys, query):
            units = _units(keys, query, b, rows)  # n', C, A
            outer = grad[b, rows]  # n', C
            weight_grad += torch.einsum("nc,nca->a", outer, units)
            slope = units.mul_(1 - units).mul_(outer[:, :, None])
            keys_grad[b] += slope.sum(0)
            query_grad[b, rows] = slope.sum(1)
        return keys_grad * weight, query_grad * weight, weight_grad
