from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from smlstm.errors import ConfigurationError, MissingDependencyError
from smlstm.files import fingerprint
from smlstm.vision.backbones import load_backbone

# Names and shapes of torchvision's published file, written down by hand.
CONVOLUTIONS = {
    0: (64, 3), 2: (64, 64), 5: (128, 64), 7: (128, 128), 10: (256, 128), 12: (256, 256), 14: (256, 256),
    16: (256, 256), 19: (512, 256), 21: (512, 512), 23: (512, 512), 25: (512, 512), 28: (512, 512),
    30: (512, 512), 32: (512, 512), 34: (512, 512),
}  # fmt: skip
CLASSIFIER = {0: (4096, 25088), 3: (4096, 4096), 6: (1000, 4096)}


@pytest.fixture(scope="module")
def published() -> dict[str, torch.Tensor]:
    """Generated tensors with the published file's names and shapes."""
    generator = torch.Generator().manual_seed(0)
    shapes = {f"features.{at}": (*shape, 3, 3) for at, shape in CONVOLUTIONS.items()}
    shapes |= {f"classifier.{at}": shape for at, shape in CLASSIFIER.items()}
    tensors = {}
    for name, shape in shapes.items():
        scale = (2.0 / np.prod(shape[1:])) ** 0.5
        tensors[f"{name}.weight"] = torch.randn(shape, generator=generator) * scale
        tensors[f"{name}.bias"] = torch.randn(shape[0], generator=generator) * 0.01
    return tensors


@pytest.fixture(scope="module")
def file(published, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("vgg") / "vgg19.safetensors"
    save_file(published, path)
    return path


def torchvisions(weights: dict[str, torch.Tensor]) -> nn.Sequential:
    """Build the network as torchvision lays it out, with pooling where its indices leave gaps."""
    layers: list[nn.Module] = []
    while len(layers) < 36:
        at = len(layers)
        if at in CONVOLUTIONS:
            outputs, inputs = CONVOLUTIONS[at]
            layers += [nn.Conv2d(inputs, outputs, 3, padding=1), nn.ReLU()]
        else:
            layers.append(nn.MaxPool2d(2, 2))
    network = nn.Sequential(*layers)
    network.load_state_dict({k.removeprefix("features."): v for k, v in weights.items() if k.startswith("features.")})
    return network


def test_regions_are_conv5_4_and_the_context_is_fc7(published, file):
    backbone = load_backbone("vgg19", weights=file)
    assert (backbone.input_size, backbone.regions) == (224, 196)
    assert (backbone.region_width, backbone.context_width) == (512, 4096)
    pixels = np.random.default_rng(0).integers(0, 256, (1, 224, 224, 3), dtype=np.uint8)
    regions, context = backbone.run(pixels)
    x = torch.from_numpy(pixels).permute(0, 3, 1, 2).float() / 255
    x = (x - torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1)) / torch.tensor([0.229, 0.224, 0.225]).view(3, 1, 1)
    with torch.inference_mode():
        cells = torchvisions(published)(x)
        fc6 = torch.relu(
            nn.functional.max_pool2d(cells, 2).flatten(1) @ published["classifier.0.weight"].T
            + published["classifier.0.bias"]
        )
        fc7 = torch.relu(fc6 @ published["classifier.3.weight"].T + published["classifier.3.bias"])
    assert cells.shape == (1, 512, 14, 14)
    np.testing.assert_allclose(regions, cells.flatten(2).transpose(1, 2).numpy(), atol=1e-3)
    np.testing.assert_allclose(context, fc7.numpy(), atol=1e-3)


def test_the_grid_is_fixed(file):
    with pytest.raises(ConfigurationError, match="14 x 14"):
        load_backbone("vgg19", grid=7, weights=file)


def test_missing_weights_are_explained(monkeypatch, tmp_path):
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path))
    with pytest.raises(MissingDependencyError, match=r"download .*vgg19-dcbb9e9d.pth .* with --weights"):
        load_backbone("vgg19")


def test_weights_are_found_in_torchs_cache(monkeypatch, tmp_path, file):
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path))
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / "vgg19-dcbb9e9d.safetensors").symlink_to(file)
    assert load_backbone("vgg19").weights_sha256 == fingerprint([file])


def test_a_pth_file_with_another_hash_is_refused(tmp_path):
    path = tmp_path / "vgg19-dcbb9e9d.pth"
    torch.save({"features.0.weight": torch.zeros(1)}, path)
    with pytest.raises(ConfigurationError, match=r"SHA-256 .*download it again"):
        load_backbone("vgg19", weights=path)


def test_tensors_of_another_network_are_refused(tmp_path, published):
    missing, shapes = tmp_path / "missing.safetensors", tmp_path / "shapes.safetensors"
    save_file({"features.0.weight": torch.zeros(64, 3, 3, 3)}, missing)
    save_file({**published, "features.0.weight": torch.zeros(64, 3, 5, 5)}, shapes)
    with pytest.raises(ConfigurationError, match=r"no tensor features.0.bias"):
        load_backbone("vgg19", weights=missing)
    with pytest.raises(ConfigurationError, match="shapes"):
        load_backbone("vgg19", weights=shapes)
