"""How a reranker's encoded images become bytes of a table, and images again.

What is stored are the regions as the reranker has projected them, not as the CNN gave them: they are smaller, and a
search need not project them again. The price is that another model needs the photos again.

Regions are stored as bytes: of each channel, its least value over the photo's regions and a step, and how many of
255 steps a region is above it. On Flickr8k that changed a score by 0.02% of the photos' spread on average, no R@K, and
1 in 20 top tens; float16, at twice the size, 1 in 200; one step a region 0.04% and 1 in 17 (benchmarks/packing.py).
"""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from smlstm.matching.batch import Batch, ImageFeatures
from smlstm.matching.matcher import Matcher

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]


class Packing:
    """The form of one matcher's encoded images, learned from what it makes of an empty one."""

    @torch.inference_mode()
    def __init__(self, matcher: Matcher, regions: int) -> None:
        config = matcher.config
        empty = ImageFeatures(torch.zeros(1, regions, config.region_width), torch.zeros(1, config.context_width))
        self._template = matcher.encode_images(empty)
        self.shapes = [tuple(tensor.shape[1:]) for tensor in _tensors(self._template)]
        self.width = sum(_size(shape) for shape in self.shapes)
        """Bytes of a photo."""

    def pack(self, images: Batch) -> Bytes:
        """Encoded images as bytes; M, width."""
        return np.concatenate([_pack(tensor.float().numpy()) for tensor in _tensors(images)], axis=1)

    def unpack(self, packed: Bytes) -> Batch:
        """Bytes of M images as the matcher's encoding of them."""
        start, found = 0, []
        for shape in self.shapes:
            size = _size(shape)
            found.append(torch.from_numpy(_unpack(packed[:, start : start + size], shape)))
            start += size
        return self._filled(found)

    def _filled(self, tensors: list[Tensor]) -> Batch:
        parts = iter(tensors)
        return self._template._map(lambda _: next(parts))

    @property
    def old_width(self) -> int:
        """Bytes of a photo in format 1."""
        return sum(2 * math.prod(shape) for shape in self.shapes)

    def unpack_old(self, packed: Bytes) -> Batch:
        """Bytes of M images in format 1: everything in float16, one tensor after the other."""
        start, found = 0, []
        for shape in self.shapes:
            size = 2 * math.prod(shape)
            values = _half(packed[:, start : start + size]).astype(np.float32)
            found.append(torch.from_numpy(values.reshape(len(packed), *shape)))
            start += size
        return self._filled(found)


def _size(shape: tuple[int, ...]) -> int:
    """Bytes of a tensor of one image: C x W candidates, or a single vector."""
    return 2 * shape[0] if len(shape) == 1 else math.prod(shape) + 4 * shape[-1]


def _pack(values: Floats) -> Bytes:
    """M vectors in float16, or M x C x W candidates as least values and steps in float16, then C x W bytes."""
    if values.ndim == 2:
        return values.astype(np.float16).view(np.uint8)
    least = values.min(1, keepdims=True).astype(np.float16)  # M, 1, W
    # What rounding to float16 takes off the least value must not push the largest beyond the last step.
    step = ((values.max(1, keepdims=True) - least) / 255).astype(np.float16)
    wide = step.astype(np.float32)
    steps = np.divide(values - least, wide, out=np.zeros_like(values), where=wide > 0)
    codes = np.clip(np.rint(steps), 0, 255).astype(np.uint8)
    count = len(values)
    return np.concatenate([part.reshape(count, -1).view(np.uint8) for part in (least, step, codes)], axis=1)


def _unpack(packed: Bytes, shape: tuple[int, ...]) -> Floats:
    if len(shape) == 1:
        return _half(packed).astype(np.float32)
    width = 2 * shape[-1]
    least, step = (_half(packed[:, start : start + width])[:, None].astype(np.float32) for start in (0, width))
    values: Floats = packed[:, 2 * width :].reshape(len(packed), *shape).astype(np.float32)
    values *= step
    values += least
    return values


def _half(packed: Bytes) -> NDArray[np.float16]:
    return np.ascontiguousarray(packed).view(np.float16)


def _tensors(batch: Batch) -> Iterator[Tensor]:
    """All tensors of an encoding, in the order in which `_map` meets them."""
    found: list[Tensor] = []

    def note(tensor: Tensor) -> Any:
        found.append(tensor)
        return tensor

    batch._map(note)
    return iter(found)
