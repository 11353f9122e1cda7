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
    logits = keys.new_empty(len(keys), query.shape[1], keys.shape[1])
    scratch = keys.new_empty(0)  # one for all slices: fresh memory costs more than the arithmetic
    for items, pairs in _slices(keys, query):
        units = _units(keys[items], query[items, pairs], exponentials, scratch)  # b', n', C, A
        scratch = scratch if len(scratch) else units.view(-1)
        logits[items, pairs] = (units.view(-1, len(weight)) @ weight).view(units.shape[:3])
    return logits


def _slices(keys: Tensor, query: Tensor) -> Iterator[tuple[slice, slice]]:
    """Items, and pairs of each, cut so that pairs x candidates x units stay small; the first slice is largest."""
    size = max(1, keys.shape[1] * keys.shape[2])
    pairs = max(1, min(query.shape[1], _SLICE // size))
    items = max(1, _SLICE // (size * pairs))
    for first in range(0, len(keys), items):
        for start in range(0, query.shape[1], pairs):
            yield slice(first, first + items), slice(start, start + pairs)


def _units(keys: Tensor, query: Tensor, exponentials: bool, scratch: Tensor) -> Tensor:
    """The sigmoids of one slice: keys b', C, A and query b', n', A -> b', n', C, A, in the scratch if there is one."""
    shape = (len(keys), query.shape[1], *keys.shape[1:])
    size = math.prod(shape)
    out = scratch[:size].view(shape) if len(scratch) else keys.new_empty(shape)
    keys, query = keys[:, None], query[:, :, None]
    if exponentials:
        return torch.addcmul(keys.new_ones(()), keys, query, out=out).reciprocal_()
    return torch.add(keys, query, out=out).sigmoid_()


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
        for items, pairs in _slices(keys, query):
            outer = grad[items, pairs]  # b', n', C
            units = _units(keys[items], query[items, pairs], exponentials, keys.new_empty(0))  # b', n', C, A
            weight_grad += outer.flatten() @ units.flatten(0, 2)
            slope = torch.addcmul(units, units, units, value=-1).mul_(outer[..., None])
            keys_grad[items] += slope.sum(1)
            query_grad[items, pairs] = slope.sum(2)
        return keys_grad * weight, query_grad * weight, weight_grad
