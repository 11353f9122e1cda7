import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from smlstm.data import FeatureStore


def smlstm(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from smlstm.cli import main; main()", *map(str, arguments)]
    return subprocess.run(command, check=False, capture_output=True, text=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("photos")
    rng = np.random.default_rng(0)
    for index in range(9):
        Image.fromarray(rng.integers(0, 256, (50, 70, 3), dtype=np.uint8)).save(folder / f"{index}.jpg")
    (folder / "bad.jpg").write_text("not a photo")
    return folder


def test_extract_resumes_and_lists_what_it_skipped(folder, tmp_path):
    store = tmp_path / "store"
    first = smlstm("extract", folder, "--out", store, "--grid", 2, "--limit", 4, "--json")
    assert first.returncode == 0, first.stderr
    summary = json.loads(first.stdout)
    assert (summary["extracted"], summary["already_stored"], summary["skipped"]) == (4, 0, 0)
    assert not (tmp_path / "store.skipped.jsonl").exists()

    second = smlstm("extract", folder, "--out", store, "--grid", 2, "--batch", 2, "--json")
    assert second.returncode == 0, second.stderr
    summary = json.loads(second.stdout)
    assert (summary["extracted"], summary["already_stored"], summary["skipped"]) == (5, 4, 1)
    (line,) = (tmp_path / "store.skipped.jsonl").read_text().splitlines()
    skipped = json.loads(line)
    assert skipped["key"] == "bad.jpg"
    assert "not in a format" in skipped["reason"]
    assert f"skipped {folder / 'bad.jpg'}" in second.stderr.replace("\n", "")

    with FeatureStore.open(store) as features:
        assert sorted(features.keys()) == [f"{index}.jpg" for index in range(9)]
        assert features.read(["3.jpg"])[0].shape == (1, 4, 1280)


def test_another_grid_does_not_mix(folder, tmp_path):
    assert smlstm("extract", folder, "--out", tmp_path / "store", "--grid", 2, "--limit", 1).returncode == 0
    mixed = smlstm("extract", folder, "--out", tmp_path / "store", "--grid", 3, "--limit", 1)
    assert mixed.returncode == 3
    assert "Traceback" not in mixed.stderr


def test_failures_are_one_sentence_and_a_stable_code(folder, tmp_path):
    unknown = smlstm("extract", folder, "--out", tmp_path / "s", "--backbone", "resnet")
    assert unknown.returncode == 2
    assert "choose one of efficientnet-lite0" in unknown.stderr
    assert not (tmp_path / "s").exists()
    (tmp_path / "only").mkdir()
    (tmp_path / "only" / "bad.jpg").touch()
    unreadable = smlstm("extract", tmp_path / "only", "--out", tmp_path / "t", "--grid", 2)
    assert unreadable.returncode == 3
    assert "none of the 1 photos could be read" in unreadable.stderr
    assert "Traceback" not in unreadable.stderr


def test_the_text_summary(folder, tmp_path):
    done = smlstm("extract", folder, "--out", tmp_path / "store", "--grid", 2)
    assert done.stdout.startswith(f"9 photos extracted into {tmp_path / 'store'} in ")
    assert f"1 skipped: see {tmp_path / 'store.skipped.jsonl'}" in done.stdout
