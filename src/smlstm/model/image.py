"""Image instance candidates and the image's global context (section 3.1).

    a_i = the last convolution's features at place i of the grid      i = 1..I
    m   = the last fully connected layer's output

Both come from a frozen CNN and are data here: any backbone, any grid. The paper does not say how they are
scaled. `rms` divides all regions of an image by their common root mean square, so that bright and dull regions
keep their proportion, and the context by its own.
"""

import torch
from torch import Tensor

from smlstm.batch import ImageFeatures
from smlstm.model.config import FeatureScale

_SMALLEST = 1e-6


def scale_features(features: ImageFeatures, scale: FeatureScale) -> ImageFeatures:
    """Bring an image's regions and context to a common size, image by image."""
    if scale == "none":
        return features
    return ImageFeatures(_by_rms(features.regions), _by_rms(features.context))


def _by_rms(values: Tensor) -> Tensor:
    """Divide each item by the root mean square of all its values; M, ... ."""
    # Squares of VGG's activations overflow half precision.
    wide = values.to(torch.promote_types(values.dtype, torch.float32))
    rms = wide.square().mean(dim=tuple(range(1, values.dim())), keepdim=True).sqrt()
    return (wide / (rms + _SMALLEST)).to(values.dtype)
