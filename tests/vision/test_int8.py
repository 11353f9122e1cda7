import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.command_line import smlstm

from smlstm.data import FeatureSpec, FeatureStore
from smlstm.errors import ConfigurationError, InputError, MissingDependencyError
from smlstm.vision import int8, read_photo, runtime
from smlstm.vision.backbones import load_backbone
from smlstm.vision.extract import Extractor
from smlstm.vision.runtime import installed_runtimes, make_runner
from smlstm.vision.views import View

NAME = "openvino-int8"

pytestmark = pytest.mark.skipif(NAME not in installed_runtimes(), reason="OpenVINO is not installed")


@pytest.fixture(scope="module")
def backbone():
    return load_backbone("efficientnet-lite2", grid=5)


@pytest.fixture(scope="module")
def runner(backbone):
    return make_runner(backbone, NAME)


def pixels_of(backbone, paths) -> np.ndarray:
    return np.stack([backbone.preprocess(read_photo(path)) for path in paths])


def off_by(found, expected) -> float:
    """Mean difference over the mean size."""
    return float(abs(found - expected).mean() / abs(expected).mean())


@pytest.mark.parametrize("grid", [5, 10])
def test_features_are_near_those_of_float32(grid, real_photos):
    backbone = load_backbone("efficientnet-lite2", grid=grid)
    pixels = pixels_of(backbone, real_photos)
    (regions, context), (exact_regions, exact_context) = make_runner(backbone, NAME).run(pixels), backbone.run(pixels)
    assert regions.dtype == context.dtype == np.float32
    assert off_by(regions, exact_regions) < 0.15
    assert off_by(context, exact_context) < 0.10
    # Each photo is five times nearer to itself than to any other.
    for index in range(len(pixels)):
        others = [off_by(context[other], exact_context[index]) for other in range(len(pixels)) if other != index]
        assert off_by(context[index], exact_context[index]) < min(others) / 5


def test_building_twice_gives_the_same_features(backbone, runner, real_photos):
    pixels = pixels_of(backbone, real_photos)
    for one, two in zip(runner.run(pixels), make_runner(backbone, NAME).run(pixels), strict=True):
        np.testing.assert_array_equal(one, two)


def test_it_is_never_taken_by_itself(backbone):
    found = make_runner(backbone)
    assert found.name != NAME
    assert found.backbone.preprocessing == backbone.preprocessing


def test_a_store_keeps_it_apart_from_float32(backbone, real_photos, tmp_path):
    photos = [(path.name, path) for path in real_photos]
    specs = {}
    for name in (NAME, "torch"):
        extractor = Extractor(backbone, runtime=name)
        specs[name] = FeatureSpec(**extractor.backbone.facts)
        if name == NAME:
            with FeatureStore.open(tmp_path / "store", specs[name]) as store:
                for batch in extractor.extract(photos):
                    store.append(batch.keys, batch.regions, batch.context, batch.sources)
    with pytest.raises(InputError, match="(?s)preprocessing.*in 8 bits, calibration"):
        FeatureStore.open(tmp_path / "store", specs["torch"])
    with FeatureStore.open(tmp_path / "store", specs[NAME]) as store:
        assert len(store) == len(photos)


def test_the_command_says_what_it_may_not_mix(real_photos, tmp_path):
    command = ("extract", real_photos[0].parent, "--backbone", "efficientnet-lite2", "--grid", 2, "--limit", 1)
    done = smlstm(*command, "--out", tmp_path / "store", "--runtime", NAME, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["runtime"] == NAME
    mixed = smlstm(*command, "--out", tmp_path / "store")
    assert mixed.returncode == 3
    assert "in 8 bits" in mixed.stderr


def test_a_mirrored_store_is_the_second_view_of_one_in_8_bits(backbone, runner):
    mirrored = make_runner(replace(backbone, view=View(mirrored=True)), NAME).backbone
    assert mirrored.preprocessing == runner.backbone.preprocessing + View(mirrored=True).text


def test_other_networks_and_other_weights_are_refused(backbone):
    with pytest.raises(
        ConfigurationError, match="efficientnet-lite2 only, not for efficientnet-lite0: take the runtime"
    ):
        make_runner(load_backbone("efficientnet-lite0", grid=2), NAME)
    with pytest.raises(ConfigurationError, match="not for 0123456789ab: take the runtime openvino"):
        make_runner(replace(backbone, weights_sha256="0123456789ab" * 5), NAME)


def test_without_openvino_it_says_what_to_install(backbone, monkeypatch):
    monkeypatch.setattr(runtime, "find_spec", lambda name: None)
    with pytest.raises(MissingDependencyError, match="openvino is not installed: pip install openvino"):
        make_runner(backbone, NAME)


def test_calibrating_gives_a_file_that_runs(runner, real_photos, tmp_path, monkeypatch, capsys):
    out = tmp_path / "found.safetensors"
    monkeypatch.setattr("sys.argv", ["int8", str(out), *map(str, real_photos[:2])])
    monkeypatch.setattr(int8, "GRID", 3)
    int8.main()
    assert f"{out}: 2 photos" in capsys.readouterr().out
    monkeypatch.setattr(int8, "FILE", out)
    backbone = load_backbone("efficientnet-lite2", grid=3)
    pixels = pixels_of(backbone, real_photos[:2])
    made = make_runner(backbone, NAME)
    assert off_by(made.run(pixels)[0], backbone.run(pixels)[0]) < 0.15
    # Features of another calibration do not mix either.
    assert made.backbone.rounded != runner.backbone.rounded


def test_the_file_in_the_package_is_small_and_fits_the_network(backbone):
    assert int8.FILE.stat().st_size < 150_000
    found, _ = int8.read_calibration(backbone)
    names = {name.removeprefix("blocks.").rsplit(".", 1)[0] for name in backbone.network.state_dict()}
    assert {name.removesuffix(".shift") for name in found if name.endswith(".shift")} == names
    in_float = {name for name in names if f"{name}.range" not in found}
    assert in_float == {"stem", "0.depthwise", "0.project", "1.project"}


def test_weights_are_whole_multiples_of_a_scale_near_the_published_ones(backbone):
    for layer, top in ((backbone.network.blocks[5].depthwise, 127), (backbone.network.head, 64)):
        with torch.inference_mode():
            whole, scale = int8.round_weights(layer)
            error = (whole * scale - layer.weight).abs().mean() / layer.weight.abs().mean()
        assert torch.equal(whole, whole.round()) and whole.abs().max() <= top
        assert error < 0.05
