"""Image instance candidates and the image's global context (section 3.1).

    a_i = the last convolution's features at place i of the grid      i = 1..I
    m   = the last fully connected layer's output

Both come from a frozen CNN and are data here: any backbone, any grid. The paper does not say how they are
scaled. Raw VGG activations reach the hundreds, where every sigmoid is flat: all regions of an image are divided by
their common root mean square, so that bright and dull regions keep their proportion, and the context by its own.
"""

import torch
from torch import Tensor

_SMALLEST = 1e-6


def scaled(values: Tensor) -> Tensor:
    """Regions, or contexts, divided by the root mean square of each image's; M, ... ."""
    # Squares of VGG's activations overflow half precision.
    wide = values.to(torch.promote_types(values.dtype, torch.float32))
    rms = wide.square().mean(dim=tuple(range(1, values.dim())), keepdim=True).sqrt()
    return (wide / (rms + _SMALLEST)).to(values.dtype)
