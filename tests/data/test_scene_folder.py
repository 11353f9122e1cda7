import json

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

import smlstm.cli.data  # noqa: F401 - registers the command
from smlstm.cli import app
from smlstm.data import FeatureStore, open_dataset
from smlstm.data.scene_folder import has_places, read_places, write_scenes
from smlstm.data.scenes import compose, patch_features
from smlstm.errors import InputError


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("drawn") / "scenes"
    write_scenes(folder, train=3, dev=2, seed=4, size=64, captions=2, patches=3)
    return folder


def test_a_folder_of_scenes_is_a_dataset_that_knows_the_places(folder):
    dataset = open_dataset(folder)
    assert [len(dataset.split(name)) for name in ("train", "dev")] == [3, 2]
    composed = compose(4, 5, size=64, captions=2)
    for record, placed, scene in zip(dataset.records, read_places(folder, dataset.records), composed, strict=True):
        assert record.captions == placed.captions == scene.captions
        assert placed.objects == scene.objects
        assert placed.picture.size == scene.picture.size
        assert np.array_equal(np.asarray(Image.open(record.path)), np.asarray(scene.picture))


def test_its_patch_features_are_those_of_the_pictures(folder):
    regions, _ = FeatureStore.open(folder / "features").read(["00003.png"])
    expected, _ = patch_features([compose(4, 4, size=64)[3].picture], grid=3)
    assert regions.shape == (1, 9, 256)
    assert np.allclose(regions, expected, atol=0.01)


def test_the_command_draws_and_refuses_a_folder_in_use(tmp_path):
    arguments = ["data", "scenes", str(tmp_path / "new"), "--train", "1", "--dev", "2", "--size", "48"]
    done = CliRunner().invoke(app, arguments)
    assert done.stdout == f"3 scenes in {tmp_path / 'new'}\n"
    assert has_places(tmp_path / "new")
    assert not (tmp_path / "new" / "features").exists()
    again = CliRunner().invoke(app, arguments)
    assert isinstance(again.exception, InputError)
    assert "is not empty" in str(again.exception)


def test_damaged_places_are_refused_by_the_file(folder, tmp_path):
    records = open_dataset(folder).records
    (tmp_path / "scenes.json").write_text('{"format": "another"}')
    with pytest.raises(InputError, match="scenes.json was not written by"):
        read_places(tmp_path, records)
    content = json.loads((folder / "scenes.json").read_text())
    del content["scenes"]["00002.png"]
    (tmp_path / "scenes.json").write_text(json.dumps(content))
    with pytest.raises(InputError, match=r"scenes\.json is damaged \(KeyError: '00002\.png'\)"):
        read_places(tmp_path, records)
