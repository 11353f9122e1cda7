"""The logits of `joint` attention without ever holding pairs x candidates x units.

    f[b, n, c] = sum_a w[a] * sig(keys[b, c, a] + query[b, n, a])

Written plainly, the sigmoid's argument has a unit for every (pair, candidate): 101 x 101 pairs of 196 regions
and 1024 units are 8 GB. Here a bounded slice of it exists at a time, and the backward pass computes the slices
again instead of keeping them.

    sig(k + q) = 1 / (1 + exp(-k) exp(-q))

The exponentials are taken once a candidate and once a pair; what remains for each (pair, candidate, unit) is a
product and a division, several times cheaper than an exponential.
"""

import math
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


def moderate(argument: Tensor) -> bool:
    """Whether exponentials of these arguments can be multiplied (up to 40 in float32); on a NaN, no.

    Beyond, the sigmoid is computed as it stands.
    """
    if argument.numel() == 0:
        return True
    largest = 0.45 * math.log(torch.finfo(argument.dtype).max)  # exp(largest) squared is still finite
    low, high = torch.aminmax(argument)
    return bool(low > -largest) and bool(high < largest)


def weighted_units(keys: Tensor, query: Tensor, weight: Tensor, exponentials: bool) -> Tensor:
    """The logits without a gradient; `exponentials`: keys and query come as exp(-keys) and exp(-query)."""
    count, candidates, width = len(keys), keys.shape[1], keys.shape[2]
    logits = keys.new_empty(count, query.shape[1], candidates)
    scratch: Tensor | None = None  # one for all slices: fresh memory costs more than the arithmetic
    for b, rows in _slices(keys, query):
        part = query[b, rows]
        if scratch is None:
            scratch = keys.new_empty(len(part), candidates, width)
        units = _units(keys[b], part, exponentials, scratch[: len(part)])  # n', C, A
        logits[b, rows] = (units.view(-1, width) @ weight).view(-1, candidates)
    return logits


def _slices(keys: Tensor, query: Tensor) -> Iterator[tuple[int, slice]]:
    """Cut the pairs of each b so that one slice of pairs x candidates x units stays small."""
    rows = max(1, _SLICE // max(1, keys.shape[1] * keys.shape[2]))
    for b in range(len(keys)):
        for start in range(0, query.shape[1], rows):
            yield b, slice(start, start + rows)


def _units(keys: Tensor, query: Tensor, exponentials: bool, out: Tensor) -> Tensor:
    """The sigmoids of one slice: keys C, A and query n', A -> n', C, A."""
    if exponentials:
        return torch.addcmul(keys.new_ones(()), keys[None], query[:, None], out=out).reciprocal_()
    return torch.add(keys[None], query[:, None], out=out).sigmoid_()


def _exponentials(keys: Tensor, query: Tensor) -> tuple[Tensor, Tensor, bool]:
    """Both sides as exponentials, if that is safe."""
    if moderate(keys) and moderate(query):
        return keys.neg().exp_(), query.neg().exp_(), True
    return keys, query, False


class _JointLogits(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, keys: Tensor, query: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(keys, query, weight)
        keys, query, exponentials = _exponentials(keys, query)
        return weighted_units(keys, query, weight, exponentials)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        keys, query, weight = ctx.saved_tensors
        keys_grad, query_grad = torch.zeros_like(keys), torch.empty_like(query)
        weight_grad = torch.zeros_like(weight)
        keys, query, exponentials = _exponentials(keys, query)
        for b, rows in _slices(keys, query):
            part, outer = query[b, rows], grad[b, rows]  # n', A and n', C
            units = _units(keys[b], part, exponentials, keys.new_empty(len(part), *keys.shape[1:]))  # n', C, A
            weight_grad += outer.flatten() @ units.flatten(0, 1)
            slope = torch.addcmul(units, units, units, value=-1).mul_(outer[:, :, None])
            keys_grad[b] += slope.sum(0)
            query_grad[b, rows] = slope.sum(1)
        return keys_grad * weight, query_grad * weight, weight_grad
