"""EfficientNet-Lite2 in 8 bits for OpenVINO: nearly twice as fast, features off by about a tenth of their mean size.

- Convolutions read bytes: 0 to the largest value after ReLU6, the range of least squared error elsewhere.
- Weights are whole multiples of a scale for each output channel: in 8 bits where a convolution is depthwise, in 7
  elsewhere, since CPUs without VNNI add two products of bytes in 16 bits.
- Layer after layer, the bias takes up the mean difference from the float32 network.
- The first layers, which cause most of the error, and the sums of the residual stream stay in float32.

Ranges and shifts of biases were found on 48 training photos of Flickr8k and lie in `int8.safetensors`; weights
are the published ones, rounded when a network is built. (NNCF 3.4 on the same network and 48 photos: features off by
0.22 of their mean size instead of 0.10, no faster, and scikit-learn and SciPy to install.) The file is made anew by

    python -m smlstm.vision.int8 OUT PHOTO...

A network that was tuned needs a calibration of its own, in its own file (`tuning`):

    python -m smlstm.vision.int8 --tuned MODEL/backbone.safetensors OUT/backbone.safetensors PHOTO...
"""

import argparse
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor
from torch.func import functional_call
from torch.nn import functional as F

from smlstm.errors import ConfigurationError
from smlstm.files import fingerprint
from smlstm.vision.backbones import Backbone, load_backbone
from smlstm.vision.backbones.efficientnet_lite import Block, Convolution, EfficientNetLite
from smlstm.vision.decode import read_photo
from smlstm.vision.tuning import INT8, is_tuned, published_name, read_tuned, with_tuned

BACKBONE, GRID = "efficientnet-lite2", 10
FILE = Path(__file__).with_suffix(".safetensors")
IN_FLOAT = ("stem", "0.", "1.project")
# Parts of a full range that are tried: a narrower one cuts the largest values and rounds the others less.
PARTS = (1, 0.9, 0.8, 0.7, 0.6, 0.5)
PHOTOS_AT_ONCE = 8

Calibration = dict[str, Tensor]
"""For each convolution `<name>.shift` of its bias and, unless it stays in float32, `<name>.range` of what it reads."""


def walk(
    network: EfficientNetLite,
    x: Any,
    convolve: Callable[[str, Convolution, Any], Any],
    relu6: Callable[[Any], Any],
    add: Callable[[Any, Any], Any],
) -> Any:
    """Run the network by three operations, which are torch's or OpenVINO's."""
    x = relu6(convolve("stem", network.stem, x))
    for index, block in enumerate(network.blocks.children()):
        assert isinstance(block, Block)
        wide = x if block.expand is None else relu6(convolve(f"{index}.expand", block.expand, x))
        narrow = convolve(
            f"{index}.project", block.project, relu6(convolve(f"{index}.depthwise", block.depthwise, wide))
        )
        x = add(x, narrow) if block.residual else narrow
    return relu6(convolve("head", network.head, x))


def steps(low: float, high: float) -> tuple[float, int]:
    """Scale of bytes over a range, and the byte that stands for 0, which the range includes."""
    scale = (high - low) / 255
    return scale, round(-low / scale)


def in_bytes(x: Tensor, low: float, high: float) -> Tensor:
    """Round to what bytes over a range can express."""
    scale, zero = steps(low, high)
    return (torch.clamp(torch.round(x / scale) + zero, 0, 255) - zero) * scale


def range_of(batches: Sequence[Tensor]) -> tuple[float, float]:
    """Find the range for some values: all of it where none is negative, else the part with the least squared error."""
    low, high = min(0.0, *(x.min().item() for x in batches)), max(x.max().item() for x in batches)
    some = torch.cat([x.flatten()[:: 1 + x.numel() // 20000] for x in batches])
    parts = PARTS if low < 0 else (1,)
    best = min(parts, key=lambda part: (in_bytes(some, low * part, high * part) - some).square().sum().item())
    return low * best, high * best


def round_weights(layer: Convolution) -> tuple[Tensor, Tensor]:
    """Whole numbers in the weights' shape, and for each output channel the scale of least squared error."""
    weight = layer.weight.flatten(1)  # outputs, inputs * kernel
    top = 127 if layer.groups > 1 else 64
    largest = weight.abs().amax(1, keepdim=True).clamp_min(1e-9)
    scales = torch.stack([largest * part / top for part in PARTS])  # parts, outputs, 1
    whole = torch.clamp(torch.round(weight / scales), -top, top)  # parts, outputs, inputs * kernel
    best = (whole * scales - weight).square().sum(2).argmin(0)
    rows = torch.arange(len(best))
    return whole[best, rows].view_as(layer.weight), scales[best, rows].view(-1, 1, 1, 1)


@torch.inference_mode()
def calibrate(network: EfficientNetLite, pixels: Tensor) -> Calibration:
    """Find ranges and shifts on photos B x S x S x 3, layer after layer, beside the float32 network."""
    found: Calibration = {}

    def convolve(name: str, layer: Convolution, pairs: list[Tensor]) -> list[Tensor]:
        # A pair, 2 x B x C x H x W, is what the float32 network and what the rounded one make of some photos.
        weight, read = layer.weight, [rough for _, rough in pairs]
        if not name.startswith(IN_FLOAT):
            whole, scale = round_weights(layer)
            low, high = range_of(read)
            weight, read = whole * scale, [in_bytes(x, low, high) for x in read]
            found[f"{name}.range"] = torch.tensor([low, high])
        made = [
            torch.stack([layer(exact), functional_call(layer, {"weight": weight}, (x,))])
            for (exact, _), x in zip(pairs, read, strict=True)
        ]
        shift = torch.stack([(exact - rough).mean((0, 2, 3)) for exact, rough in made]).mean(0)
        for _, rough in made:
            rough.add_(shift.view(-1, 1, 1))
        found[f"{name}.shift"] = shift
        return made

    def relu6(pairs: list[Tensor]) -> list[Tensor]:
        return [F.relu6(pair, inplace=True) for pair in pairs]

    def add(some: list[Tensor], others: list[Tensor]) -> list[Tensor]:
        return [one + other for one, other in zip(some, others, strict=True)]

    inputs = [network.normalised(some) for some in torch.split(pixels, PHOTOS_AT_ONCE)]
    walk(network, [torch.stack([x, x]) for x in inputs], convolve, relu6, add)
    return found


def read_calibration(backbone: Backbone) -> tuple[Calibration, str]:
    """Read what was found for a backbone, and the hash of the file; other weights are refused."""
    instead = "take the runtime openvino, or auto"
    if not isinstance(backbone.network, EfficientNetLite) or published_name(backbone.name) != BACKBONE:
        raise ConfigurationError(f"8 bits are there for {BACKBONE} only, not for {backbone.name}: {instead}")
    if backbone.network.below is not None:
        raise ConfigurationError(f"8 bits are there for all blocks of {BACKBONE}, not for some of them: {instead}")
    if backbone.calibration is not None:
        parts = (part for name, each in sorted(backbone.calibration.items()) for part in (name, each.numpy().tobytes()))
        return dict(backbone.calibration), fingerprint(parts)
    if is_tuned(backbone.name):
        raise ConfigurationError(
            f"{backbone.name} was not calibrated for 8 bits (python -m smlstm.vision.int8 --tuned does it): {instead}"
        )
    with safe_open(FILE, "pt") as file:
        expected = file.metadata()["weights_sha256"]
        if backbone.weights_sha256 != expected:
            raise ConfigurationError(
                f"8 bits are calibrated for the weights {expected[:12]} of {BACKBONE}, not for "
                f"{backbone.weights_sha256[:12]}: {instead}"
            )
        return {name: file.get_tensor(name) for name in file.keys()}, fingerprint([FILE])  # noqa: SIM118 (no mapping)


@torch.inference_mode()
def build(backbone: Backbone, found: Calibration) -> Any:
    """Make the rounded network for OpenVINO: bytes 1 x S x S x 3 to regions 1 x I x F and context 1 x D."""
    openvino, op = import_module("openvino"), import_module("openvino.opset13")
    network, side = backbone.network, backbone.input_size
    assert isinstance(network, EfficientNetLite)

    def convolve(name: str, layer: Convolution, x: Any) -> Any:
        grouped = layer.groups > 1
        shape = (layer.groups, 1, 1, *layer.kernel_size) if grouped else tuple(layer.weight.shape)
        if f"{name}.range" in found:
            scale, zero = steps(*found[f"{name}.range"].tolist())
            ends = np.float32(-zero * scale), np.float32((255 - zero) * scale)
            x = op.fake_quantize(x, *ends, *ends, 256)
            whole, scales = round_weights(layer)
            weight = op.convert(op.constant(whole.to(torch.int8).numpy().reshape(shape)), "f32")
            weight = op.multiply(weight, op.constant(scales.numpy().reshape(-1, *[1] * (len(shape) - 1))))
        else:
            weight = op.constant(layer.weight.numpy().reshape(shape))
        before, after = (layer.kernel_size[0] // 2,) * 2 if layer.margins is None else layer.margins[:2]
        function = op.group_convolution if grouped else op.convolution
        y = function(x, weight, list(layer.stride), [before] * 2, [after] * 2, [1, 1])
        assert layer.bias is not None
        return op.add(y, op.constant((layer.bias + found[f"{name}.shift"]).numpy().reshape(1, -1, 1, 1)))

    pixels = op.parameter([1, side, side, 3], np.uint8, name="pixels")
    mean, deviation = (np.array(v, np.float32).reshape(1, 3, 1, 1) for v in (network.mean, network.deviation))
    x = op.divide(op.subtract(op.convert(op.transpose(pixels, [0, 3, 1, 2]), "f32"), mean), deviation)
    cells = walk(network, x, convolve, lambda x: op.clamp(x, 0.0, 6.0), op.add)  # 1, F, side, side
    regions = op.transpose(op.reshape(cells, [1, backbone.region_width, -1], False), [0, 2, 1])  # 1, I, F
    return openvino.Model([regions, op.reduce_mean(regions, [1], False)], [pixels], f"{backbone.name}-int8")


def main() -> None:
    """Calibrate on photos, and write what was found."""
    parser = argparse.ArgumentParser(prog="python -m smlstm.vision.int8", description=main.__doc__)
    parser.add_argument("out", type=Path, help="the file to write: FILE.safetensors")
    parser.add_argument("--tuned", type=Path, help="the backbone.safetensors of a model; OUT has all of it and more")
    parser.add_argument("photos", type=Path, nargs="+", help="photos to calibrate on, some dozens; of training data")
    given = parser.parse_args()
    backbone, tuned = load_backbone(BACKBONE, grid=GRID), {}
    if given.tuned is not None:
        tuned = read_tuned(given.tuned)
        backbone = with_tuned(backbone, tuned)
    assert isinstance(backbone.network, EfficientNetLite)
    photos = [backbone.preprocess(read_photo(path, at_least=backbone.input_size)) for path in given.photos]
    found = calibrate(backbone.network, torch.from_numpy(np.stack(photos)))
    tensors = {**tuned, **{f"{INT8}{name}": each for name, each in found.items()}} if tuned else found
    save_file(tensors, given.out, {"backbone": backbone.name, "weights_sha256": backbone.weights_sha256})
    print(f"{given.out}: {len(photos)} photos, {given.out.stat().st_size} bytes")


if __name__ == "__main__":
    main()
