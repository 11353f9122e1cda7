"""A backbone whose last blocks learn: their training from stored lower features, and its weights afterwards.

The blocks below a number stay as published, so what they make of a photo is stored once (`smlstm extract --below`), and
training runs only the `Tail`: the blocks from that number on, batch normalisation folded into their convolutions as
everywhere. What was learned is kept in half precision, and is what features are made of from then on. A tuned backbone
has a name of its own, `efficientnet-lite2+` and the beginning of its hash: its features mix with no others.
"""

import copy
import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor, nn

from smlstm.errors import ConfigurationError
from smlstm.files import fingerprint
from smlstm.vision.backbones import Backbone, load_backbone
from smlstm.vision.backbones.base import read_weights

FILE = "backbone.safetensors"
"""Beside a model: what of its backbone was tuned, by the network's own names, in half precision."""
INT8 = "int8."
"""Before the names of what `int8` found for the tuned network, if it was calibrated: in the file, not in the hash."""
_MARK = "+"

TunedWeights = Mapping[str, Tensor]


class Tail(nn.Module):
    """The upper part of a backbone as something that learns: from lower features to regions and a context."""

    def __init__(self, backbone: Backbone, below: int) -> None:
        """Of a backbone as published; its own network stays as it is."""
        super().__init__()
        backbone.network.check_below(below)
        self.below = below
        self._published = backbone
        self.network = copy.deepcopy(backbone.network)
        # As cells come: forward and backward were 1.13 times as fast with AVX2 alone.
        self.network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        for name, parameter in self.network.named_parameters():
            parameter.requires_grad_(self.network.learns(name, below))
        if not self.learned():
            raise ConfigurationError(f"{backbone.name} has nothing above block {below} that could learn: cut it lower")

    def forward(self, cells: Tensor) -> tuple[Tensor, Tensor]:
        """Map lower features B x cells x C to regions B x I x F and context B x D."""
        side = math.isqrt(cells.shape[1])
        return self.network.upper(cells.transpose(1, 2).view(len(cells), -1, side, side), self.below)

    def in_products(self, cells: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """The same in another number format, as fast as the network can."""
        return self.network.upper_in_products(cells, self.below, dtype)

    def learned(self) -> dict[str, nn.Parameter]:
        """The parameters that learn, by the network's names."""
        return {name: each for name, each in self.network.named_parameters() if each.requires_grad}

    def rounded(self) -> dict[str, Tensor]:
        """What was learned as it is kept: in half precision."""
        return {name: each.detach().cpu().half().contiguous() for name, each in self.learned().items()}

    @torch.no_grad()
    def take(self, weights: TunedWeights) -> None:
        """Go on from weights that were tuned before; those of blocks that do not learn here are refused."""
        learned, weights = self.learned(), _parameters(weights)
        odd = sorted(set(weights) - set(learned))
        if odd:
            raise ConfigurationError(
                f"{odd[0]} was tuned before, but lies below block {self.below}, where nothing learns here: extract "
                "lower features that end before it"
            )
        for name, tensor in weights.items():
            learned[name].copy_(tensor)

    def shape(self, cells: int, width: int) -> tuple[int, int, int]:
        """I, F and D that come of so many cells of lower features."""
        weight = next(self.parameters())
        with torch.inference_mode():
            regions, context = self(torch.zeros(1, cells, width, device=weight.device))
        return regions.shape[1], regions.shape[2], context.shape[1]

    def name_of(self, weights: TunedWeights) -> str:
        """What the backbone with these weights is called."""
        return _name(self._published, weights)


def with_tuned(backbone: Backbone, weights: TunedWeights) -> Backbone:
    """A published backbone with what was tuned of it."""
    network = copy.deepcopy(backbone.network)
    places = dict(network.named_parameters())
    calibration = {name.removeprefix(INT8): each for name, each in weights.items() if name.startswith(INT8)}
    for name, tensor in _parameters(weights).items():
        if name not in places or places[name].shape != tensor.shape:
            raise ConfigurationError(
                f"tuned weights have a tensor {name} of shape {tuple(tensor.shape)}, which {backbone.name} has not: "
                "were they tuned for another backbone?"
            )
        if not bool(torch.isfinite(tensor).all()):
            raise ConfigurationError(f"tuned weights of {backbone.name}: {name} is not all finite numbers")
        places[name].copy_(tensor)
    return replace(
        backbone,
        name=_name(backbone, weights),
        weights_sha256=_digest(backbone, weights),
        network=network,
        calibration=calibration or None,
    )


def load_tuned(
    name: str, weights: TunedWeights | None, *, grid: int | None = None, published: Path | None = None
) -> Backbone:
    """Build a backbone by its name, tuned or not; `published` is a file to use in place of the one found by itself."""
    backbone = load_backbone(published_name(name), grid=grid, weights=published)
    if not is_tuned(name):
        return backbone
    if weights is None:
        raise ConfigurationError(
            f"the weights of {name} are beside the model that they were tuned for ({FILE}): give that model's folder"
        )
    tuned = with_tuned(backbone, weights)
    if tuned.name != name:
        raise ConfigurationError(
            f"these tuned weights make {tuned.name}, not {name}: they are another model's, or damaged"
        )
    return tuned


def published_name(name: str) -> str:
    """The name that a backbone had before it was tuned."""
    return name.partition(_MARK)[0]


def is_tuned(name: str) -> bool:
    """Whether a name is that of a tuned backbone."""
    return _MARK in name


def read_tuned(path: Path) -> dict[str, Tensor]:
    """Read what was tuned from a file."""
    return read_weights(path)


def _parameters(weights: TunedWeights) -> TunedWeights:
    return {name: tensor for name, tensor in weights.items() if not name.startswith(INT8)}


def _name(published: Backbone, weights: TunedWeights) -> str:
    return f"{published.name}{_MARK}{_digest(published, weights)[:12]}"


def _digest(published: Backbone, weights: TunedWeights) -> str:
    def parts() -> Iterator[str | bytes]:
        yield published.weights_sha256
        for name, tensor in sorted(_parameters(weights).items()):
            yield f"\n{name} {tuple(tensor.shape)}\n"
            yield tensor.half().contiguous().numpy().tobytes()

    return fingerprint(parts())
