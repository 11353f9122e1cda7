import logging
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from smlstm.errors import ConfigurationError, MissingDependencyError
from smlstm.vision import read_photo, runtime
from smlstm.vision.backbones import load_backbone
from smlstm.vision.converted import cache_folder
from smlstm.vision.runtime import installed_runtimes, make_runner

FAST = [name for name in ("openvino", "onnxruntime") if name in installed_runtimes()]


@pytest.fixture(scope="module")
def backbone():
    return load_backbone("efficientnet-lite0", grid=4)


def photos(backbone, paths) -> np.ndarray:
    return np.stack([backbone.preprocess(read_photo(path)) for path in paths])


@pytest.mark.parametrize("name", FAST)
@pytest.mark.parametrize("model", ["efficientnet-lite0", "efficientnet-lite2"])
def test_runtimes_agree_on_real_photos(name, model, real_photos):
    backbone = load_backbone(model, grid=7)
    pixels = photos(backbone, real_photos)
    expected = make_runner(backbone, "torch").run(pixels)
    found = make_runner(backbone, name).run(pixels)
    for mine, torchs in zip(found, expected, strict=True):
        assert mine.dtype == np.float32
        np.testing.assert_allclose(mine, torchs, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("name", FAST)
def test_runtimes_agree_on_lower_blocks(name, backbone, real_photos):
    pixels = photos(backbone, real_photos)
    for below in (5, 12):
        lower = backbone.lower_part(below)
        expected = make_runner(lower, "torch").run(pixels)
        for mine, torchs in zip(make_runner(lower, name).run(pixels), expected, strict=True):
            np.testing.assert_allclose(mine, torchs, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("name", [*FAST, "torch"])
def test_many_threads_may_use_one_runner(name, backbone):
    rng = np.random.default_rng(0)
    batches = [rng.integers(0, 256, (3, 128, 128, 3), dtype=np.uint8) for _ in range(24)]
    runner = make_runner(backbone, name, streams=3)
    alone = [runner.run(batch) for batch in batches]
    with ThreadPoolExecutor(6) as pool:
        together = list(pool.map(runner.run, batches))
    for (regions, context), (same_regions, same_context) in zip(alone, together, strict=True):
        np.testing.assert_allclose(same_regions, regions, atol=1e-5)
        np.testing.assert_allclose(same_context, context, atol=1e-5)


@pytest.mark.parametrize("name", [*FAST, "torch"])
def test_a_photo_has_the_same_features_in_any_batch(name, backbone, real_photos):
    runner = make_runner(backbone, name)
    pixels = photos(backbone, real_photos)
    whole, _ = runner.run(pixels)
    single, _ = runner.run(pixels[2:3])
    np.testing.assert_allclose(single[0], whole[2], atol=1e-4)


def test_an_empty_batch_is_empty(backbone):
    regions, context = make_runner(backbone).run(np.empty((0, 128, 128, 3), np.uint8))
    assert regions.shape == (0, 16, 1280)
    assert context.shape == (0, 1280)


def test_automatic_takes_the_first_that_is_installed(backbone):
    assert make_runner(backbone).name == installed_runtimes()[0]


def test_automatic_falls_back_to_torch_and_says_so(backbone, monkeypatch, caplog):
    def broken(*_: object) -> None:
        raise RuntimeError("no such instruction")

    monkeypatch.setattr(runtime.OpenVinoRunner, "__init__", broken)
    monkeypatch.setattr(runtime.OnnxRunner, "__init__", broken)
    with caplog.at_level(logging.WARNING):
        assert make_runner(backbone).name == "torch"
    assert "no such instruction" in caplog.text
    with pytest.raises(ConfigurationError, match="no such instruction"):
        make_runner(backbone, "openvino")


def test_unknown_and_missing_runtimes_are_refused(backbone, monkeypatch):
    with pytest.raises(ConfigurationError, match="choose auto, openvino, onnxruntime, torch"):
        make_runner(backbone, "tensorrt")
    monkeypatch.setattr(runtime, "find_spec", lambda name: None)
    with pytest.raises(MissingDependencyError, match=r"smlstm\[onnxruntime\]"):
        make_runner(backbone, "onnxruntime")


@pytest.mark.skipif("openvino" not in FAST, reason="OpenVINO is not installed")
class TestConversionCache:
    def test_a_network_is_converted_once(self, backbone, monkeypatch, tmp_path):
        monkeypatch.setenv("SMLSTM_CACHE", str(tmp_path))
        make_runner(backbone, "openvino")
        monkeypatch.setattr(runtime.OpenVinoRunner, "_convert", lambda *_: pytest.fail("converted again"))
        make_runner(backbone, "openvino")
        assert cache_folder() == tmp_path

    def test_a_damaged_one_is_made_again(self, backbone, monkeypatch, tmp_path):
        monkeypatch.setenv("SMLSTM_CACHE", str(tmp_path))
        make_runner(backbone, "openvino")
        (weights,) = tmp_path.rglob("network.bin")
        weights.write_bytes(weights.read_bytes()[:-4] + b"\xff\xff\xff\xff")
        pixels = np.zeros((1, 128, 128, 3), np.uint8)
        found, _ = make_runner(backbone, "openvino").run(pixels)
        np.testing.assert_allclose(found, backbone.run(pixels)[0], atol=1e-3)

    def test_no_place_to_keep_it_is_no_obstacle(self, backbone, monkeypatch, tmp_path):
        (tmp_path / "file").touch()
        monkeypatch.setenv("SMLSTM_CACHE", str(tmp_path / "file" / "below"))
        assert make_runner(backbone, "openvino").name == "openvino"

    def test_a_failed_conversion_leaves_nothing(self, backbone, monkeypatch, tmp_path):
        def broken(*_: object) -> None:
            raise RuntimeError("half way")

        monkeypatch.setenv("SMLSTM_CACHE", str(tmp_path))
        monkeypatch.setattr(runtime.OpenVinoRunner, "_convert", broken)
        with pytest.raises(ConfigurationError, match="half way"):
            make_runner(backbone, "openvino")
        assert list((tmp_path / "networks").iterdir()) == []


@pytest.mark.skipif("openvino" not in FAST, reason="OpenVINO is not installed")
def test_openvino_reports_nothing_over_the_network():
    # In a process of its own: what counts is the import, which happens once.
    code = (
        "import os, sys\n"
        "os.register_at_fork(before=lambda: print('forked'))\n"  # reports leave by a process of their own
        "from smlstm.vision.backbones import load_backbone\n"
        "from smlstm.vision.runtime import make_runner\n"
        "print(make_runner(load_backbone('efficientnet-lite0', grid=2), 'openvino').name)\n"
        "print([name for name in sys.modules if name.startswith('openvino_telemetry.')])\n"
    )
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert found.stdout.splitlines() == ["openvino", "[]"]
