"""Tuning a backbone's last blocks: what they learn from, where they start, and images as they show them."""

import re
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch.func import functional_call

from smlstm.data import FeatureSpec, open_features
from smlstm.errors import ConfigurationError, InputError
from smlstm.matching.batch import ImageFeatures
from smlstm.matching.matcher import Matcher
from smlstm.training.data_config import DataConfig
from smlstm.training.examples import Examples
from smlstm.training.read_examples import PhotoStores
from smlstm.vision.backbones import load_backbone
from smlstm.vision.backbones.base import below_of
from smlstm.vision.tuning import Tail, is_tuned
from smlstm.vision.views import AS_IT_IS, View

_MOST_CELLS = 256
"""Of lower features that are seen through as matrix products: of more, the zeros in them cost more than they save."""
_SIZE = re.compile(r"squashed to \d+x\d+")


def lower_stores(data: Sequence[DataConfig]) -> list[PhotoStores]:
    """What a stage that tunes reads."""
    found = []
    for number, entry in enumerate(data):
        dev = entry.dev_lower
        for path in entry.lower if dev is None else ():
            if View.split(open_features(path).spec.preprocessing)[1] == AS_IT_IS:
                dev = path
        if dev is None:
            if entry.dev:
                raise InputError(
                    f"data.{number}.lower has no photos as they are to measure dev on: give data.{number}.dev_lower"
                )
            dev = entry.lower[0]
        found.append(PhotoStores(tuple(entry.lower), dev))
    return found


def make_tail(lower: FeatureSpec) -> Tail:
    """The blocks above some lower features, as published."""
    below = below_of(lower.preprocessing)
    if below is None or is_tuned(lower.backbone):
        raise InputError(
            f"data.lower has features of {'all blocks of ' if below is None else ''}{lower.backbone}: tuning starts "
            "from lower blocks as published, `smlstm extract --below`"
        )
    backbone = load_backbone(lower.backbone)
    if backbone.weights_sha256 != lower.weights_sha256:
        raise InputError(
            f"the lower features are of {lower.backbone} with the weights {lower.weights_sha256[:12]}, here are "
            f"{backbone.weights_sha256[:12]}: extract them again"
        )
    return Tail(backbone, below)


def spec_above(tail: Tail, lower: FeatureSpec, dev: FeatureSpec) -> FeatureSpec:
    """What a matcher reads above lower features; its grid is the one that dev is measured on, which is used later."""
    different = _of_any_size(lower).difference(_of_any_size(dev))
    if different:
        field, first, this = different
        raise InputError(
            f'lower features of dev must be made like those of training, but for the grid: "{field}" is {this!r}, not '
            f"{first!r}; extract one of them again"
        )
    regions, width, context = tail.shape(dev.regions, dev.region_width)
    return replace(dev, regions=regions, region_width=width, context_width=context)


def _of_any_size(spec: FeatureSpec) -> FeatureSpec:
    plain, _ = View.split(spec.preprocessing)
    return replace(spec, regions=1, preprocessing=_SIZE.sub("squashed", plain))


def seen_through(tail: Tail, lower: ImageFeatures) -> ImageFeatures:
    """What a tail makes of lower features.

    On a CPU that trains in bfloat16, as matrix products (vision/backbones/products.py): in convolutions it would gain
    nothing, 14 ms of a core per photo instead of 12 (EfficientNet-Lite2 from block 15, 256 px, forward and backward).
    """
    weight = next(tail.parameters())
    cells = lower.regions.to(weight.device, weight.dtype)
    if weight.device.type != "cpu":
        return ImageFeatures(*tail(cells))
    fast = torch.is_autocast_enabled("cpu") and torch.get_autocast_dtype("cpu") == torch.bfloat16
    products = fast and tail.network.learns_in_products and cells.shape[1] <= _MOST_CELLS
    with torch.autocast("cpu", enabled=False):
        return ImageFeatures(*(tail.in_products(cells, torch.bfloat16) if products else tail(cells)))


def as_saved(tail: Tail, examples: Examples) -> Examples:
    """Examples of lower features seen through a tail with the weights that are kept of it: figures are of those."""
    device = next(tail.parameters()).device
    weights = {f"network.{name}": each.float().to(device) for name, each in tail.rounded().items()}

    @torch.no_grad()
    def change(lower: ImageFeatures) -> ImageFeatures:
        return ImageFeatures(*functional_call(tail, weights, (lower.regions.to(device).float(),)))

    return replace(examples, images=examples.images.through(change))


def keep_tuned(matcher: Matcher, tail: Tail) -> None:
    """Let a matcher know the backbone that it now reads, for whoever saves it."""
    matcher.tuned = tail.rounded()
    matcher.config = matcher.config.model_copy(update={"backbone": tail.name_of(matcher.tuned)})


def dev_as_seen_by(matcher: Matcher, dev: Examples) -> Examples:
    """Dev examples of lower features as a saved matcher sees them that was tuned above them."""
    tail = make_tail(dev.images.spec)
    if matcher.tuned is None:
        raise ConfigurationError(f"a {matcher.kind} that reads {matcher.config.backbone} has no tuned backbone")
    tail.take(matcher.tuned)
    return as_saved(tail.to(next(matcher.parameters()).device), dev)
