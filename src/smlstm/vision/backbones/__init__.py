"""Backbones by name: frozen networks that turn a photo into regions and a context."""

from pathlib import Path

from smlstm.errors import ConfigurationError
from smlstm.vision.backbones import efficientnet_lite, timm_models, vgg19
from smlstm.vision.backbones.base import Backbone, FeatureNetwork

__all__ = ["Backbone", "FeatureNetwork", "has_fixed_grid", "load_backbone"]

_LOADERS = {
    **dict.fromkeys(efficientnet_lite.VARIANTS, efficientnet_lite.load),
    vgg19.NAME: vgg19.load,
}


def has_fixed_grid(name: str) -> bool:
    """Whether a backbone's regions follow from the model and cannot be chosen."""
    return name.startswith(timm_models.PREFIX)


def load_backbone(name: str, *, grid: int | None = None, weights: Path | str | None = None) -> Backbone:
    """Build a backbone with its published weights.

    `grid` is the side of the square of regions, where the backbone lets it be chosen. `weights` is a file to
    use in place of the one that is found by itself.
    """
    path = None if weights is None else Path(weights)
    if name.startswith(timm_models.PREFIX):
        return timm_models.load(name, grid, path)
    if name not in _LOADERS:
        raise ConfigurationError(
            f"there is no backbone {name!r}: choose one of {', '.join(_LOADERS)}, or {timm_models.PREFIX}<model>"
        )
    return _LOADERS[name](name, grid, path)
