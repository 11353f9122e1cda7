"""How a reranker's encoded images become bytes of a table, and images again.

What is stored are the regions as the reranker has projected them, not as the CNN gave them: they are smaller, and a
search need not project them again. The price is that another model needs the photos again.
"""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from smlstm.batch import Batch, ImageFeatures
from smlstm.matcher import Matcher

Bytes = NDArray[np.uint8]


class Packing:
    """The form of one matcher's encoded images, learned from what it makes of an empty one."""

    @torch.inference_mode()
    def __init__(self, matcher: Matcher, regions: int) -> None:
        config = matcher.config
        empty = ImageFeatures(torch.zeros(1, regions, config.region_width), torch.zeros(1, config.context_width))
        self._template = matcher.encode_images(empty)
        self.shapes = [tuple(tensor.shape[1:]) for tensor in _tensors(self._template)]
        self.width = sum(2 * math.prod(shape) for shape in self.shapes)
        """Bytes of a photo."""

    def pack(self, images: Batch) -> Bytes:
        """Encoded images as bytes; M, width."""
        parts = [tensor.flatten(1).to(torch.float16).contiguous().numpy().view(np.uint8) for tensor in _tensors(images)]
        return np.concatenate(parts, axis=1)

    def unpack(self, packed: Bytes) -> Batch:
        """Bytes of M images as the matcher's encoding of them."""
        start, found = 0, []
        for shape in self.shapes:
            size = 2 * math.prod(shape)
            part = np.ascontiguousarray(packed[:, start : start + size]).view(np.float16)
            found.append(torch.from_numpy(part.astype(np.float32)).view(len(packed), *shape))
            start += size
        parts = iter(found)
        return self._template._map(lambda _: next(parts))


def _tensors(batch: Batch) -> Iterator[Tensor]:
    """All tensors of an encoding, in the order in which `_map` meets them."""
    found: list[Tensor] = []

    def note(tensor: Tensor) -> Any:
        found.append(tensor)
        return tensor

    batch._map(note)
    return iter(found)
