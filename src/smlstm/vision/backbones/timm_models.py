"""Any convolutional or hierarchical model of timm, as `timm:<model>`, with the extra `timm`."""

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from smlstm.errors import ConfigurationError, MissingDependencyError
from smlstm.files import fingerprint
from smlstm.vision.backbones.base import Backbone, FeatureNetwork, read_weights

PREFIX = "timm:"


class TimmNetwork(FeatureNetwork):
    """A timm model whose last feature map gives the regions and whose pooled features give the context."""

    def __init__(self, model: Any, mean: tuple[float, ...], deviation: tuple[float, ...]):
        super().__init__()
        self.model = model
        self.mean = (mean[0] * 255, mean[1] * 255, mean[2] * 255)
        self.deviation = (deviation[0] * 255, deviation[1] * 255, deviation[2] * 255)

    def features(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Map normalised B x 3 x S x S to regions B x I x F and context B x D."""
        cells: Tensor = self.model.forward_features(x)
        context: Tensor = self.model.forward_head(cells, pre_logits=True)
        if cells.dim() == 3:  # B, tokens, F: a transformer; its class tokens come first and are no regions
            return cells[:, getattr(self.model, "num_prefix_tokens", 0) :], context
        if cells.shape[1] != self.model.num_features:  # B, side, side, F
            return cells.flatten(1, 2), context
        return cells.flatten(2).transpose(1, 2), context  # from B, F, side, side


def load(name: str, grid: int | None = None, weights: Path | None = None) -> Backbone:
    """Build `timm:<model>` at its own input size; its pretrained weights unless a file is given."""
    if grid is not None:
        raise ConfigurationError(f"the grid of {name} follows from the model; {grid} cannot be chosen")
    try:
        timm = import_module("timm")
    except (ImportError, RuntimeError) as error:
        # timm needs a torchvision built for this very torch, and a mismatch shows as a RuntimeError.
        raise MissingDependencyError(
            f"{name} needs timm, which cannot be imported here ({error}): pip install 'smlstm[timm]', with a "
            "torchvision built for the installed torch"
        ) from None
    model_name = name.removeprefix(PREFIX)
    if not timm.is_model(model_name):
        close = timm.list_models(f"*{model_name}*")[:5]
        raise ConfigurationError(
            f"timm has no model {model_name!r}" + (f": did you mean {', '.join(close)}?" if close else "")
        )
    model = _with_published_weights(timm, model_name) if weights is None else _with_weights(timm, model_name, weights)
    data = timm.data.resolve_model_data_config(model)
    size = int(data["input_size"][-1])
    network = TimmNetwork(model, data["mean"], data["std"]).eval()
    with torch.inference_mode():
        regions, context = network(torch.zeros(1, size, size, 3, dtype=torch.uint8))
    return Backbone(
        name=name,
        input_size=size,
        regions=regions.shape[1],
        region_width=regions.shape[2],
        context_width=context.shape[1],
        weights_sha256=fingerprint(_parts(model.state_dict())),
        network=network,
    )


def _with_published_weights(timm: Any, name: str) -> Any:
    try:
        return timm.create_model(name, pretrained=True, num_classes=0)
    # Downloading can fail in whatever way the libraries below timm choose.
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise MissingDependencyError(
            f"timm could not get the weights of {name} ({reason:.200}): try again with a connection, or give a "
            "weights file with --weights"
        ) from None


def _with_weights(timm: Any, name: str, file: Path) -> Any:
    """Build a model with the weights of a file, which may have a classifier on top but must lack nothing."""
    model = timm.create_model(name, pretrained=False, num_classes=0)
    try:
        missing = model.load_state_dict(read_weights(file), strict=False).missing_keys
    except RuntimeError:
        raise ConfigurationError(f"{file} has tensors of other shapes: is it a weights file of {name}?") from None
    if missing:
        raise ConfigurationError(
            f"{file} lacks {len(missing)} tensors, the first is {missing[0]}: is it a weights file of {name}?"
        )
    return model


def _parts(tensors: dict[str, Tensor]) -> Iterator[str | bytes]:
    for name, tensor in sorted(tensors.items()):
        yield name
        yield tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes()
