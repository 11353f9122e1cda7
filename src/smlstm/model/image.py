"""Image instance candidates and the image's global context (section 3.1).

    a_i = the last convolution's features at place i of the grid      i = 1..I
    m   = the last fully connected layer's output

Both come from a frozen CNN and are data here: any backbone, any grid. The paper does not say how they are
scaled. Raw VGG activations reach the hundreds, where every sigmoid is flat: all regions of an image are divided by
their common root mean square, so that bright and dull regions keep their proportion, and the context by its own.
"""

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

_SMALLEST = 1e-6


def scaled(values: Tensor) -> Tensor:
    """Regions, or contexts, divided by the root mean square of each image's; M, ... ."""
    found: Tensor = _Scaled.apply(values)  # type: ignore[no-untyped-call]
    return found


class _Scaled(torch.autograd.Function):
    """y = x / r, whose backward pass goes over the values twice: autograd's own took a fifth of a training step."""

    @staticmethod
    def forward(ctx: Any, values: Tensor) -> Tensor:
        rows = values.flatten(1)
        # Squares of VGG's activations overflow half precision.
        wide = torch.promote_types(values.dtype, torch.float32)
        root: Tensor = torch.linalg.vector_norm(rows, dim=1, keepdim=True, dtype=wide) / math.sqrt(rows.shape[1])
        inverse: Tensor = 1 / (root + _SMALLEST)
        found: Tensor
        if values.dtype == torch.float16:  # whose inverses of large roots are coarse, or 0
            found = (rows.to(wide) * inverse).to(values.dtype)
        else:
            found = rows * inverse.to(values.dtype)
        ctx.save_for_backward(found, inverse, root)
        return found.view_as(values)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        found: Tensor
        found, inverse, root = ctx.saved_tensors
        rows = gradient.flatten(1)
        along = torch.bmm(rows[:, None], found[:, :, None])[:, :, 0].to(root.dtype)
        # dr/dx = x / (r n), and x is y over the inverse.
        share = along / (inverse * root.clamp(min=_SMALLEST) * rows.shape[1])
        back: Tensor = torch.addcmul(rows, found, share.to(rows.dtype), value=-1) * inverse.to(rows.dtype)
        return back.view_as(gradient)


def with_some_channels(regions: Tensor, dropout: nn.Dropout) -> Tensor:
    """Dropout of the same channels in all regions of an image: each region apart, a mean would undo it; M, I, F."""
    if not dropout.training or not dropout.p:
        return regions
    kept: Tensor = dropout(torch.ones_like(regions[:, :1]))  # M, 1, F
    return regions * kept
