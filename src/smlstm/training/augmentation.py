"""Making the same photo and the same sentence a little different each time they are seen.

`region_dropout` leaves out a share of each image's regions, at random places: a photo with parts covered. Where the
image's context is the mean of its regions, it becomes the mean of those that are left.
`word_dropout` replaces words by the unknown word: it keeps a model from recognising captions by one rare word, and
teaches it what to do with words it does not know.

Both draw from torch's global generator, which the loop seeds for each step.
"""

from dataclasses import replace

import torch

from smlstm.matching.batch import ImageFeatures, Tokens
from smlstm.text import UNKNOWN


def cover_regions(features: ImageFeatures, share: float) -> ImageFeatures:
    """The same for who looks at a region's neighbours: what is left out is zero, and the grid stays."""
    kept = torch.rand(features.regions.shape[:2], device=features.regions.device) >= share
    regions = features.regions * kept[:, :, None]
    if not is_mean(features):
        return ImageFeatures(regions, features.context)
    shares = kept.float().mean(1, keepdim=True).clamp(min=1 / kept.shape[1])
    return ImageFeatures(regions, (_mean(regions).float() / shares).to(regions.dtype))


def drop_regions(features: ImageFeatures, share: float) -> ImageFeatures:
    """Keep a random part of each image's regions; at least one."""
    count = features.regions.shape[1]
    kept = max(1, round(count * (1 - share)))
    draws = torch.rand(features.regions.shape[:2], device=features.regions.device)
    places = draws.argsort(1)[:, :kept]  # M, kept
    regions = features.regions.gather(1, places[:, :, None].expand(-1, -1, features.regions.shape[2]))
    return ImageFeatures(regions, _mean(regions) if is_mean(features) else features.context)


def is_mean(features: ImageFeatures) -> bool:
    """Whether the context is the regions' mean, as an EfficientNet pools it; half precision rounds both."""
    if features.context.shape[1] != features.regions.shape[2]:
        return False
    mean = _mean(features.regions).float()
    size = mean.abs().mean().item()
    return (mean - features.context.float()).abs().mean().item() <= 0.01 * size


def drop_words(tokens: Tokens, share: float) -> Tokens:
    """Make a random part of the words unknown."""
    unknown = (torch.rand(tokens.ids.shape, device=tokens.ids.device) < share) & tokens.mask
    vectors = None if tokens.vectors is None else tokens.vectors.masked_fill(unknown[:, :, None], 0.0)
    return replace(tokens, ids=tokens.ids.masked_fill(unknown, UNKNOWN), vectors=vectors)


def _mean(regions: torch.Tensor) -> torch.Tensor:
    return regions.float().mean(1).to(regions.dtype)
