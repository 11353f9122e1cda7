"""Image instance candidates and the image's global context (section 3.1).

    a_i = the last convolution's features at place i of the grid      i = 1..I
    m   = the last fully connected layer's output

Both come from a frozen CNN and are data here: any backbone, any grid. The paper does not say how they are
scaled. `rms` divides all regions of an image by their common root mean square, so that bright and dull regions
keep their proportion, and the context by its own.
"""

from smlstm.batch import ImageFeatures
from smlstm.model.config import FeatureScale

_SMALLEST = 1e-6


def scale_features(features: ImageFeatures, scale: FeatureScale) -> ImageFeatures:
    """Bring an image's regions and context to a common size, image by image."""
    if scale == "none":
        return features
    regions, context = features.regions, features.context
    region_rms = regions.square().mean(dim=(1, 2), keepdim=True).sqrt()  # M, 1, 1
    context_rms = context.square().mean(dim=1, keepdim=True).sqrt()  # M, 1
    return ImageFeatures(regions / (region_rms + _SMALLEST), context / (context_rms + _SMALLEST))
