"""Tails of backbones, and backbones with what was tuned of them."""

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from smlstm.errors import ConfigurationError
from smlstm.vision import int8, read_photo
from smlstm.vision.backbones import Backbone, load_backbone
from smlstm.vision.backbones.vgg19 import Vgg19
from smlstm.vision.runtime import installed_runtimes, make_runner
from smlstm.vision.tuning import Tail, load_tuned, read_tuned, with_tuned

NAME, BELOW = "efficientnet-lite0", 11


@pytest.fixture(scope="module")
def backbone():
    return load_backbone(NAME, grid=2)


@pytest.fixture(scope="module")
def vgg19():
    torch.manual_seed(0)
    return Backbone("vgg19", 224, 196, 512, 4096, "0" * 64, Vgg19())


@pytest.fixture(scope="module")
def pixels(backbone, real_photos):
    return np.stack([backbone.preprocess(read_photo(path)) for path in real_photos])


def changed(tail, by=0.02):
    """What steps might have made of a tail."""
    generator = torch.Generator().manual_seed(1)
    return {
        name: (tensor.float() * (1 + by * torch.randn(tensor.shape, generator=generator))).half()
        for name, tensor in tail.rounded().items()
    }


@pytest.mark.parametrize("below", [1, BELOW, 16])
def test_lower_blocks_and_a_tail_are_the_whole_network(backbone, pixels, below):
    cells, _ = backbone.lower_part(below).run(pixels)
    with torch.inference_mode():
        regions, context = Tail(backbone, below)(torch.from_numpy(cells))
    expected = backbone.run(pixels)
    np.testing.assert_allclose(regions, expected[0], atol=1e-4)
    np.testing.assert_allclose(context, expected[1], atol=1e-4)


def test_the_last_block_of_vgg19_learns_and_its_head_does_not(vgg19):
    pixels = np.random.default_rng(0).integers(0, 256, (1, 224, 224, 3), dtype=np.uint8)
    lower = vgg19.lower_part(4)
    assert (lower.regions, lower.region_width) == (196, 512)
    tail = Tail(vgg19, 4)
    regions, context = tail(torch.from_numpy(lower.run(pixels)[0]))
    expected = vgg19.run(pixels)
    np.testing.assert_allclose(regions.detach(), expected[0], atol=1e-4)
    np.testing.assert_allclose(context.detach(), expected[1], atol=1e-4)
    context.sum().backward()
    assert {name for name, each in tail.network.named_parameters() if each.grad is not None} == set(tail.learned())
    assert {name.partition(".")[0] for name in tail.learned()} == {"features_"}
    assert len(tail.learned()) == 8, "weights and biases of four convolutions"
    with pytest.raises(ConfigurationError, match="nothing above block 5 that could learn"):
        Tail(vgg19, 5)


def test_the_published_network_stays_as_it_is(backbone):
    before = {name: tensor.clone() for name, tensor in backbone.network.state_dict().items()}
    tail = Tail(backbone, BELOW)
    tail.take(changed(tail))
    tuned = with_tuned(backbone, tail.rounded())
    assert tuned.name.startswith(f"{NAME}+") and tuned.weights_sha256 != backbone.weights_sha256
    assert all(torch.equal(before[name], tensor) for name, tensor in backbone.network.state_dict().items())
    assert tail.name_of(tail.rounded()) == tuned.name


@pytest.mark.parametrize("runtime", [name for name in installed_runtimes() if name != "openvino-int8"])
def test_every_runtime_runs_the_tuned_network(backbone, pixels, runtime):
    tail = Tail(backbone, BELOW)
    weights = changed(tail)
    tail.take(weights)
    cells, _ = backbone.lower_part(BELOW).run(pixels)
    with torch.inference_mode():
        expected = tail(torch.from_numpy(cells))
    found = make_runner(load_tuned(tail.name_of(weights), weights, grid=2), runtime).run(pixels)
    for mine, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-3, atol=1e-3)


def test_a_name_stands_for_one_set_of_weights(backbone):
    tail = Tail(backbone, BELOW)
    one, other = changed(tail, 0.01), changed(tail, 0.02)
    name = tail.name_of(one)
    assert name != tail.name_of(other)
    with pytest.raises(ConfigurationError, match="another model's, or damaged"):
        load_tuned(name, other)
    with pytest.raises(ConfigurationError, match="beside the model that they were tuned for"):
        load_tuned(name, None)
    with pytest.raises(ConfigurationError, match="were they tuned for another backbone"):
        with_tuned(backbone, {"head.weight": torch.zeros(2, 2)})
    with pytest.raises(ConfigurationError, match="not all finite numbers"):
        with_tuned(backbone, {"head.bias": torch.full((1280,), torch.nan)})


def test_blocks_that_do_not_learn_are_not_taken_over(backbone):
    weights = Tail(backbone, BELOW - 1).rounded()
    with pytest.raises(ConfigurationError, match=r"blocks\.10\..* lies below block 11"):
        Tail(backbone, BELOW).take(weights)


@pytest.mark.skipif("openvino-int8" not in installed_runtimes(), reason="OpenVINO is not installed")
def test_int8_needs_a_calibration_of_its_own(real_photos, tmp_path, monkeypatch):
    backbone = load_backbone("efficientnet-lite2", grid=4)
    weights = changed(Tail(backbone, 15))
    tuned = with_tuned(backbone, weights)
    with pytest.raises(ConfigurationError, match=r"lite2\+\w+ was not calibrated .*: take the runtime openvino"):
        make_runner(tuned, "openvino-int8")
    save_file(weights, tmp_path / "backbone.safetensors")
    asked = ["int8", "--tuned", str(tmp_path / "backbone.safetensors"), str(tmp_path / "out.safetensors")]
    monkeypatch.setattr("sys.argv", [*asked, *map(str, real_photos)])
    int8.main()
    calibrated = load_tuned(tuned.name, read_tuned(tmp_path / "out.safetensors"), grid=4)
    assert calibrated.weights_sha256 == tuned.weights_sha256, "it is the same network"
    runner = make_runner(calibrated, "openvino-int8")
    assert "in 8 bits, calibration" in runner.backbone.preprocessing
    pixels = np.stack([tuned.preprocess(read_photo(path)) for path in real_photos])
    _, found = runner.run(pixels)
    _, expected = tuned.run(pixels)
    cosines = (found * expected).sum(1) / np.linalg.norm(found, axis=1) / np.linalg.norm(expected, axis=1)
    assert cosines.min() > 0.98
