"""VGG-19, the paper's backbone: `conv5_4` as 14 x 14 regions of 512, `fc7` as a context of 4096.

Both are taken after their ReLU. The layers carry torchvision's names, so that its published file fits.
"""

import os
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from smlstm.errors import ConfigurationError, MissingDependencyError
from smlstm.files import fingerprint
from smlstm.vision.backbones.base import Backbone, FeatureNetwork, as_regions, read_weights

NAME = "vgg19"
INPUT_SIZE = 224
GRID = 14
REGION_WIDTH = 512
CONTEXT_WIDTH = 4096
WEIGHTS_FILE = "vgg19-dcbb9e9d.pth"
WEIGHTS_ADDRESS = f"https://download.pytorch.org/models/{WEIGHTS_FILE}"
# torchvision writes the first digits of a file's SHA-256 into its name.
SHA256_PREFIX = "dcbb9e9d"

# Channels of each convolution; 0 is a pooling that halves the side.
LAYERS = (64, 64, 0, 128, 128, 0, 256, 256, 256, 256, 0, 512, 512, 512, 512, 0, 512, 512, 512, 512)


class Vgg19(FeatureNetwork):
    """VGG-19 up to `fc7`."""

    # ImageNet's mean and deviation, for pixels of 0..255.
    mean = (0.485 * 255, 0.456 * 255, 0.406 * 255)
    deviation = (0.229 * 255, 0.224 * 255, 0.225 * 255)
    blocks_in_all = LAYERS.count(0) + 1

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        inputs = 3
        for channels in LAYERS:
            if channels == 0:
                layers.append(nn.MaxPool2d(2))
            else:
                layers += [nn.Conv2d(inputs, channels, 3, padding=1), nn.ReLU()]
                inputs = channels
        self.features_ = nn.Sequential(*layers)
        self.fc6 = nn.Linear(REGION_WIDTH * 7 * 7, CONTEXT_WIDTH)
        self.fc7 = nn.Linear(CONTEXT_WIDTH, CONTEXT_WIDTH)

    def lower(self, x: Tensor, below: int) -> Tensor:
        """Map normalised B x 3 x 224 x 224 to what the blocks below a number give, their last pooling included."""
        cells: Tensor = self.features_[: self._cut(below)](x)
        return cells

    def upper(self, x: Tensor, below: int) -> tuple[Tensor, Tensor]:
        """Map what `lower` gives to regions B x 196 x 512 and context B x 4096."""
        cells = self.features_[self._cut(below) :](x)  # B, 512, 14, 14
        pooled = F.max_pool2d(cells, 2).flatten(1)  # B, 512 * 7 * 7
        context = F.relu(self.fc7(F.relu(self.fc6(pooled))))
        return as_regions(cells), context

    def learns(self, name: str, below: int) -> bool:
        """The convolutions from a block on; `fc6` and `fc7` do not, 120 million weights for a few thousand photos."""
        part, _, rest = name.partition(".")
        return part == "features_" and int(rest.partition(".")[0]) >= self._cut(below)

    def _cut(self, below: int) -> int:
        """The layer behind the blocks below a number: poolings end all blocks but the last."""
        poolings = [place for place, layer in enumerate(self.features_) if isinstance(layer, nn.MaxPool2d)]
        return [0, *(place + 1 for place in poolings), len(self.features_)][below]

    def read(self, weights: dict[str, Tensor]) -> None:
        """Fill the network from torchvision's names: `features.N`, `classifier.0` and `classifier.3`."""
        ours = {}
        for name in self.state_dict():
            layer, kind = name.rsplit(".", 1)
            theirs = {"fc6": "classifier.0", "fc7": "classifier.3"}.get(layer, layer.replace("features_", "features"))
            ours[name] = f"{theirs}.{kind}"
        missing = [name for name in ours.values() if name not in weights]
        if missing:
            raise ConfigurationError(f"it has no tensor {missing[0]}, as torchvision's VGG-19 has")
        try:
            self.load_state_dict({name: weights[theirs] for name, theirs in ours.items()})
        except RuntimeError as error:
            raise ConfigurationError(f"its shapes are not VGG-19's: {error}") from None


def find_weights() -> Path:
    """Find torchvision's file in torch's cache of downloads, or say how to get it."""
    folder = Path(torch.hub.get_dir()) / "checkpoints"
    for name in (WEIGHTS_FILE, WEIGHTS_FILE.replace(".pth", ".safetensors")):
        if (folder / name).is_file():
            return folder / name
    raise MissingDependencyError(
        f"the weights of VGG-19 are not here: download {WEIGHTS_ADDRESS} (548 MB) and give its path with "
        f"--weights, or put it into {_short(folder)}"
    )


def _short(folder: Path) -> str:
    home = os.path.expanduser("~")  # noqa: PTH111 (Path.home fails where there is no home)
    return str(folder).replace(home, "~", 1) if home != "~" else str(folder)


def load(name: str = NAME, grid: int | None = None, weights: Path | None = None) -> Backbone:
    """Build VGG-19 from torchvision's file; a .pth file must have the published hash."""
    if grid not in (None, GRID):
        raise ConfigurationError(f"{name} has a grid of {GRID} x {GRID} regions; {grid} cannot be chosen")
    path = find_weights() if weights is None else weights
    tensors = read_weights(path)
    digest = fingerprint([path])
    # A safetensors copy of the file holds the same tensors under another hash, which the store records.
    if path.suffix != ".safetensors" and not digest.startswith(SHA256_PREFIX):
        raise ConfigurationError(
            f"{path} has SHA-256 {digest}, not {SHA256_PREFIX}... as {WEIGHTS_FILE} has: download it again from "
            f"{WEIGHTS_ADDRESS}"
        )
    network = Vgg19()
    try:
        network.read(tensors)
    except ConfigurationError as error:
        raise ConfigurationError(f"{path} does not fit: {error}") from None
    return Backbone(
        name=name,
        input_size=INPUT_SIZE,
        regions=GRID * GRID,
        region_width=REGION_WIDTH,
        context_width=CONTEXT_WIDTH,
        weights_sha256=digest,
        network=network,
    )
