"""Looking at photos: the CNN whose features a pair of models reads."""

from collections.abc import Sequence
from functools import cached_property
from math import isqrt
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from smlstm.errors import InputError
from smlstm.matching.batch import ImageFeatures
from smlstm.pair import Pair
from smlstm.vision.extract import Extractor


class Eyes:
    """Turns photos into features for a pair; the CNN is loaded at the first one and kept."""

    def __init__(self, pair: Pair, runtime: str = "auto") -> None:
        self.pair, self.runtime = pair, runtime

    @cached_property
    def extractor(self) -> Extractor:
        """The CNN, ready to run."""
        from smlstm.explain.photos import load_photo_backbone  # noqa: PLC0415 - seldom needed

        backbone = load_photo_backbone(self.pair.reranker, grid=isqrt(self.pair.regions))
        return Extractor(backbone, runtime=self.runtime)

    def features(self, photos: Sequence[str | Path]) -> ImageFeatures:
        """Features of some photos, in their order; an unreadable one is refused."""
        if not photos:
            raise InputError("there is no photo to look at")
        regions, context = [], []
        for batch in self.extractor.extract((str(photo), Path(photo)) for photo in photos):
            for skipped in batch.skipped:
                raise skipped.error()
            regions.append(torch.from_numpy(batch.regions))
            context.append(torch.from_numpy(batch.context))
        return ImageFeatures(torch.cat(regions), torch.cat(context))

    def features_of(self, photos: Sequence[NDArray[np.uint8]]) -> ImageFeatures:
        """Features of photos that the backbone has preprocessed, S x S x 3, as those of files would be stored."""
        if not photos:
            raise InputError("there is no photo to look at")
        extractor = self.extractor
        found = [extractor.runner.run(pixels[None]) for pixels in photos]
        regions, context = (
            torch.from_numpy(np.concatenate(parts).astype(np.float16)) for parts in zip(*found, strict=True)
        )
        if not (regions.isfinite().all() and context.isfinite().all()):
            raise InputError(f"{extractor.backbone.name} gives features beyond float16: the picture cannot be used")
        return ImageFeatures(regions, context)
