"""What a backbone is: a network from square photos to regions and a context, and how photos were prepared for it."""

import copy
import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from safetensors.torch import load_file
from torch import Tensor, nn

from smlstm.errors import ConfigurationError
from smlstm.vision.views import AS_IT_IS, View

_BELOW = re.compile(r"; blocks below (\d+)(?:;|$)")


class FeatureNetwork(nn.Module):
    """A network that takes pixels as they come, uint8 B x S x S x 3, and normalises them itself.

    Bytes are a quarter of the memory traffic of floats, and a runtime that compiles the network folds the
    normalisation into it.
    """

    mean: tuple[float, float, float]
    deviation: tuple[float, float, float]
    blocks_in_all: int = 0
    """Blocks that `lower` and `upper` can be cut between, numbered from 0; 0 where the network cannot be cut."""
    learns_in_products: bool = False
    """Whether it has `upper_in_products`."""
    below: int | None = None
    """With a number, regions are the cells that the blocks below it give, and the context is their mean."""
    centred_from: int | None = None
    """The block from which on regions lie in the middle of their cells, where the published network's do not."""

    def forward(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        """Map uint8 B x S x S x 3 to regions B x I x F and context B x D."""
        x = self.normalised(pixels)
        if self.below is None:
            return self.features(x)
        regions = as_regions(self.lower(x, self.below))
        return regions, regions.mean(1)

    def normalised(self, pixels: Tensor) -> Tensor:
        """Map uint8 B x S x S x 3 to B x 3 x S x S around 0."""
        x = pixels.permute(0, 3, 1, 2).to(torch.float32)  # B, 3, S, S
        mean = torch.tensor(self.mean).view(1, 3, 1, 1)
        deviation = torch.tensor(self.deviation).view(1, 3, 1, 1)
        return (x - mean) / deviation

    def features(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Map normalised B x 3 x S x S to regions B x I x F and context B x D."""
        return self.upper(self.lower(x, self.blocks_in_all), self.blocks_in_all)

    def lower(self, x: Tensor, below: int) -> Tensor:
        """Map normalised B x 3 x S x S to what the blocks below a number give, B x C x side x side."""
        raise NotImplementedError

    def upper(self, x: Tensor, below: int) -> tuple[Tensor, Tensor]:
        """Map what `lower` gives to regions B x I x F and context B x D."""
        raise NotImplementedError

    def upper_in_products(self, cells: Tensor, below: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """Map B x cells x C to what `upper` gives, by matrix products in another number format."""
        raise NotImplementedError

    def learns(self, name: str, below: int) -> bool:
        """Whether tuning from a block on changes the parameter of this name."""
        raise NotImplementedError

    def check_below(self, below: int) -> None:
        """Refuse a number of blocks that the network cannot be cut at."""
        if not self.blocks_in_all:
            raise ConfigurationError(
                "this backbone cannot be cut into lower and upper blocks: take an efficientnet-lite or vgg19"
            )
        if not 1 <= below <= self.blocks_in_all:
            raise ConfigurationError(f"below {below} is outside 1 to {self.blocks_in_all}, the backbone's blocks")


def as_regions(cells: Tensor) -> Tensor:
    """Map B x F x side x side to B x I x F."""
    return cells.flatten(2).transpose(1, 2)


@dataclass(frozen=True, eq=False)
class Backbone:
    """A CNN that learns no more: I regions of width F and a context of width D from every photo."""

    name: str
    input_size: int
    regions: int
    region_width: int
    context_width: int
    weights_sha256: str
    network: FeatureNetwork
    view: View = AS_IT_IS
    """How photos are seen: others than as they are, to train on."""
    rounded: str = ""
    """How a runtime rounds the network, where its features are not those of float32."""
    calibration: Mapping[str, Tensor] | None = None
    """What `int8` found for a tuned network."""

    def __post_init__(self) -> None:
        self.network.eval().requires_grad_(False)

    @property
    def preprocessing(self) -> str:
        """All that is done to a photo before the first layer, and how layers are rounded; others do not mix."""
        mean = ", ".join(f"{value:g}" for value in self.network.mean)
        deviation = ", ".join(f"{value:g}" for value in self.network.deviation)
        return (
            f"upright RGB 0..255, alpha on white; squashed to {self.input_size}x{self.input_size}, bicubic; "
            f"minus ({mean}), over ({deviation})"
            f"{self._centred}{f'; {self.rounded}' if self.rounded else ''}{self._part}{self.view.text}"
        )

    @property
    def _part(self) -> str:
        return "" if self.network.below is None else f"; blocks below {self.network.below}"

    @property
    def _centred(self) -> str:
        below, first = self.network.below, self.network.centred_from
        return "; regions centred" if first is not None and (below is None or below > first) else ""

    @property
    def facts(self) -> dict[str, Any]:
        """All that features depend on, by the names that a store's description has for it."""
        return {
            "backbone": self.name,
            "weights_sha256": self.weights_sha256,
            "preprocessing": self.preprocessing,
            "regions": self.regions,
            "region_width": self.region_width,
            "context_width": self.context_width,
        }

    def preprocess(self, photo: Image.Image, key: str = "") -> NDArray[np.uint8]:
        """Squash an RGB photo to the input square: S x S x 3 bytes; `key` decides what an augmented view shows."""
        size, photo = (self.input_size, self.input_size), self.view.show(photo, key)
        if photo.size != size:
            photo = photo.resize(size, Image.Resampling.BICUBIC, reducing_gap=2.0)
        pixels = np.array(photo)
        return np.ascontiguousarray(pixels[:, ::-1]) if self.view.part(key).mirrored else pixels

    def lower_part(self, below: int) -> "Backbone":
        """The blocks below a number as a backbone of their own, whose features a tail of the network can go on from."""
        self.network.check_below(below)
        network = copy.copy(self.network)  # of the same tensors
        network.below = below
        with torch.inference_mode():
            regions, context = network(torch.zeros(1, self.input_size, self.input_size, 3, dtype=torch.uint8))
        return replace(
            self,
            network=network,
            regions=regions.shape[1],
            region_width=regions.shape[2],
            context_width=context.shape[1],
        )

    def run(self, pixels: NDArray[np.uint8]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Run a batch B x S x S x 3 in torch: regions B x I x F, context B x D. See `runtime` for faster ways."""
        with torch.inference_mode():
            regions, context = self.network(torch.from_numpy(pixels))
        return regions.numpy(), context.numpy()


def below_of(preprocessing: str) -> int | None:
    """Read from a description of preprocessing which blocks made features; None: all of them."""
    found = _BELOW.search(preprocessing)
    return None if found is None else int(found.group(1))


def read_weights(path: Path) -> dict[str, Tensor]:
    """Read tensors by name from a .pth or .safetensors file; code inside the file is never run."""
    state: Any
    try:
        if path.suffix == ".safetensors":
            state = load_file(path)
        else:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                state = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise ConfigurationError(f"there is no weights file {path}") from None
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror or error}") from None
    # Bytes that are no weights can raise anything, and what torch says of them advises to run the code inside.
    except Exception:
        raise ConfigurationError(
            f"{path} is not a readable weights file: it is damaged, holds code, or is neither a .pth file of tensors "
            "nor .safetensors"
        ) from None
    if not isinstance(state, dict) or not all(
        isinstance(name, str) and isinstance(value, Tensor) for name, value in state.items()
    ):
        raise ConfigurationError(f"{path} does not hold tensors by name: is it a state dict?")
    return state
