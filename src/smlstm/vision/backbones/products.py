"""Convolutions of a small grid as matrix products: how the upper blocks of a mobile network learn fast on a CPU.

Values lie as channels x (photos x cells). A convolution of 1 x 1 is then one product,

    y = W x + b        W: outputs x inputs,

and one that filters each channel in space is a product with a matrix of its own for each channel,

    y_c = x_c T_c      T_c: cells x cells', whose entries are the kernel's, or 0,

made of the kernel by a product with a constant of zeros and ones, so that autograd does the rest. In bfloat16 on a CPU
that multiplies it natively, forward and backward of EfficientNet-Lite2 from block 15 on took half of the time of
convolutions in float32 (an 8 x 8 grid; torch has no fast bfloat16 for convolutions of single channels). Of larger
grids the zeros of T_c cost more than they save.
"""

import math
from functools import cache

import torch
from torch import Tensor, nn
from torch.nn import functional as F


def as_channels(cells: Tensor, dtype: torch.dtype) -> Tensor:
    """B, I, C to C, B I."""
    return cells.permute(2, 0, 1).reshape(cells.shape[2], -1).to(dtype)


def pointwise(x: Tensor, convolution: nn.Conv2d) -> Tensor:
    """A convolution of 1 x 1; inputs, B I to outputs, B I."""
    weight, bias = _weights(convolution, x.dtype)
    return torch.addmm(bias, weight, x)


def depthwise(x: Tensor, convolution: nn.Conv2d, margins: tuple[int, int], photos: int) -> Tensor:
    """A convolution of each channel by itself, with margins before and behind; C, B I to C, B I'."""
    channels = x.shape[0]
    cells = x.shape[1] // photos
    places = _places(convolution.kernel_size[0], convolution.stride[0], margins, math.isqrt(cells)).to(x.dtype)
    kernel, bias = _weights(convolution, x.dtype)
    filters = (kernel @ places.flatten(1)).view(channels, cells, -1)  # C, I, I'
    return torch.bmm(x.view(channels, photos, cells), filters).view(channels, -1) + bias


def relu6(x: Tensor) -> Tensor:
    """Between 0 and 6."""
    return F.hardtanh(x, 0.0, 6.0)


def _weights(convolution: nn.Conv2d, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """A kernel (outputs, the rest) and its bias (outputs, 1)."""
    assert convolution.bias is not None
    return convolution.weight.flatten(1).to(dtype), convolution.bias.to(dtype)[:, None]


@cache
def _places(kernel: int, stride: int, margins: tuple[int, int], side: int) -> Tensor:
    """Which cell each place of a kernel sees for each cell that comes out; kernel^2, I, I'."""
    out = (side + sum(margins) - kernel) // stride + 1
    seen = torch.arange(out)[:, None] * stride + torch.arange(kernel) - margins[0]  # side', kernel
    along = F.one_hot(seen.clamp(0, side - 1), side) * ((seen >= 0) & (seen < side))[:, :, None]  # side', kernel, side
    found = torch.einsum("ykr,xlc->klrcyx", along, along)
    return found.reshape(kernel * kernel, side * side, out * out)
