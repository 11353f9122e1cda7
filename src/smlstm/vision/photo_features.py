"""The features of these photos for this model: made by the backbone that its configuration names.

Search, explanation and evaluation all read photos here. A backbone whose grid can be chosen gets the one that the model
was trained on; no weight depends on it, but maps are best on it.
"""

import math
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from smlstm.errors import ConfigurationError, InputError
from smlstm.vision.backbones import Backbone, has_fixed_grid
from smlstm.vision.extract import Extractor
from smlstm.vision.tuning import TunedWeights, load_tuned

Regions = NDArray[np.float16]
"""M, I, F."""
Contexts = NDArray[np.float16]
"""M, D."""


class ReadsFeatures(Protocol):
    """What a model's configuration says of the features that it reads."""

    @property
    def backbone(self) -> str:
        """The backbone's name."""

    @property
    def regions(self) -> int | None:
        """I, regions of a photo, where it is known."""

    @property
    def region_width(self) -> int:
        """F, width of a region."""

    @property
    def context_width(self) -> int:
        """D, width of the global context."""


def load_backbone_for(
    model: ReadsFeatures, tuned: TunedWeights | None = None, *, grid: int | None = None, weights: Path | None = None
) -> Backbone:
    """Load the backbone whose features a model reads, with what was tuned of it for the model.

    `grid` is the side of the square of regions, if another.
    """
    if not model.backbone:
        raise ConfigurationError("the model does not say which backbone made its features: it cannot read photos")
    side = trained_grid(model) if grid is None else grid
    network = load_tuned(model.backbone, tuned, grid=side, published=weights)
    if (network.region_width, network.context_width) != (model.region_width, model.context_width):
        raise ConfigurationError(
            f"{model.backbone} gives regions of {network.region_width} and a context of {network.context_width}, the "
            f"model was made for {model.region_width} and {model.context_width}"
        )
    return network


def trained_grid(model: ReadsFeatures) -> int | None:
    """Side of the grid that a model was trained on, where it is known and a backbone lets it be chosen."""
    return math.isqrt(model.regions) if model.regions and not has_fixed_grid(model.backbone) else None


class PhotoReader:
    """Turns photos into the features that a model reads; the backbone is loaded at the first one and kept."""

    def __init__(
        self,
        model: ReadsFeatures,
        tuned: TunedWeights | None = None,
        *,
        grid: int | None = None,
        runtime: str = "auto",
        backbone: Backbone | None = None,
    ) -> None:
        self._model, self._tuned = model, tuned
        self._grid, self._runtime, self._backbone = grid, runtime, backbone

    @cached_property
    def extractor(self) -> Extractor:
        """The backbone, ready to run."""
        backbone = self._backbone or load_backbone_for(self._model, self._tuned, grid=self._grid)
        return Extractor(backbone, runtime=self._runtime)

    def read(self, photos: Sequence[str | Path]) -> tuple[Regions, Contexts]:
        """Features of photos in their order, as `smlstm extract` would store them; an unreadable one is refused."""
        if not photos:
            raise InputError("there is no photo to look at")
        batches = []
        for batch in self.extractor.extract((str(photo), Path(photo)) for photo in photos):
            for skipped in batch.skipped:
                raise skipped.error()
            batches.append((batch.regions, batch.context))
        regions, contexts = (np.concatenate(parts) for parts in zip(*batches, strict=True))
        return regions, contexts

    def read_pixels(self, photos: Sequence[NDArray[np.uint8]]) -> tuple[Regions, Contexts]:
        """Features of photos that the backbone has preprocessed, S x S x 3, as those of files would be stored."""
        if not photos:
            raise InputError("there is no photo to look at")
        found = [self.extractor.runner.run(pixels[None]) for pixels in photos]
        with np.errstate(over="ignore"):  # which is told below
            regions, contexts = (np.concatenate(parts).astype(np.float16) for parts in zip(*found, strict=True))
        if not (np.isfinite(regions).all() and np.isfinite(contexts).all()):
            name = self.extractor.backbone.name
            raise InputError(f"{name} gives features beyond float16: the picture cannot be used")
        return regions, contexts
