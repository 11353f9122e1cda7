"""timm itself needs a torchvision built for the installed torch, so a stand-in plays its part."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from smlstm.errors import ConfigurationError, MissingDependencyError
from smlstm.vision.backbones import load_backbone
from smlstm.vision.photo_features import PhotoReader, load_backbone_for, trained_grid

SIZE = 32


class Model(nn.Module):
    """A convolution, a mean and, as published, a classifier: what of timm's models is used here."""

    num_features = 5

    def __init__(self, num_classes: int = 10):
        super().__init__()
        self.conv = nn.Conv2d(3, self.num_features, 8, 8)
        if num_classes:
            self.head = nn.Linear(self.num_features, num_classes)

    def forward_features(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(x)

    def forward_head(self, x: torch.Tensor, pre_logits: bool) -> torch.Tensor:
        assert pre_logits
        return x.mean((2, 3))


@pytest.fixture
def published() -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    return Model().state_dict()


@pytest.fixture
def timm(monkeypatch, published) -> SimpleNamespace:
    def create_model(name: str, *, pretrained: bool, num_classes: int) -> Model:
        model = Model(num_classes)
        if pretrained:
            model.load_state_dict(published, strict=False)
        return model

    settings = {"input_size": (3, SIZE, SIZE), "mean": (0.5, 0.4, 0.3), "std": (0.2, 0.2, 0.2)}
    fake = SimpleNamespace(
        is_model=lambda name: name == "tiny",
        list_models=lambda pattern: ["tiny"] if "tin" in pattern else [],
        create_model=create_model,
        data=SimpleNamespace(resolve_model_data_config=lambda model: settings),
    )
    monkeypatch.setitem(sys.modules, "timm", fake)
    return fake


@pytest.mark.usefixtures("timm")
def test_published_weights_and_those_of_a_file_give_the_same(tmp_path, published):
    torch.save(published, tmp_path / "tiny.pth")
    downloaded, given = load_backbone("timm:tiny"), load_backbone("timm:tiny", weights=tmp_path / "tiny.pth")
    assert (downloaded.input_size, downloaded.regions) == (SIZE, 16)
    assert (downloaded.region_width, downloaded.context_width) == (5, 5)
    assert downloaded.weights_sha256 == given.weights_sha256
    pixels = np.random.default_rng(0).integers(0, 256, (2, SIZE, SIZE, 3), dtype=np.uint8)
    regions, context = given.run(pixels)
    x = (torch.from_numpy(pixels).permute(0, 3, 1, 2) / 255 - torch.tensor([0.5, 0.4, 0.3]).view(3, 1, 1)) / 0.2
    cells = nn.functional.conv2d(x, published["conv.weight"], published["conv.bias"], stride=8)
    np.testing.assert_allclose(regions, cells.flatten(2).transpose(1, 2), atol=1e-4)
    np.testing.assert_allclose(context, cells.mean((2, 3)), atol=1e-4)


@pytest.mark.usefixtures("timm")
def test_weights_of_another_model_are_refused(tmp_path, published):
    file = tmp_path / "other.pth"
    torch.save({"backbone." + name: tensor for name, tensor in published.items()}, file)
    with pytest.raises(ConfigurationError, match=r"lacks 2 tensors, the first is conv\.weight: is it .* of tiny"):
        load_backbone("timm:tiny", weights=file)
    torch.save({**published, "conv.weight": torch.zeros(5, 3, 4, 4)}, file)
    with pytest.raises(ConfigurationError, match="tensors of other shapes"):
        load_backbone("timm:tiny", weights=file)


@pytest.mark.parametrize("failure", [OSError("Name or service\nnot known"), RuntimeError("No pretrained weights")])
def test_a_failed_download_is_a_sentence(monkeypatch, timm, failure):
    def fail(*_, **__):
        raise failure

    monkeypatch.setattr(timm, "create_model", fail)
    with pytest.raises(MissingDependencyError, match=r"could not get the weights of tiny \(N\w+.*--weights") as caught:
        load_backbone("timm:tiny")
    assert "\n" not in str(caught.value)


@pytest.mark.usefixtures("timm")
def test_a_name_that_timm_does_not_know_is_answered_with_close_ones():
    with pytest.raises(ConfigurationError, match="no model 'tin': did you mean tiny"):
        load_backbone("timm:tin")


@pytest.mark.usefixtures("timm")
def test_photos_are_read_for_a_model_that_was_trained_on_it(tmp_path):
    """Its configuration tells how many regions there were; the grid follows from the model and is not asked for."""
    Image.new("RGB", (40, 30), "red").save(tmp_path / "red.png")
    model = SimpleNamespace(backbone="timm:tiny", regions=16, region_width=5, context_width=5)
    reader = PhotoReader(model, runtime="torch")
    regions, contexts = reader.read([tmp_path / "red.png"] * 3)
    assert (regions.shape, contexts.shape) == ((3, 16, 5), (3, 5))
    assert trained_grid(model) is None
    with pytest.raises(ConfigurationError, match="the grid of timm:tiny follows from the model; 3 cannot be chosen"):
        load_backbone_for(model, grid=3)
    other = SimpleNamespace(backbone="timm:tiny", regions=16, region_width=7, context_width=5)
    with pytest.raises(ConfigurationError, match="gives regions of 5 and a context of 5, the model was made for 7"):
        load_backbone_for(other)
