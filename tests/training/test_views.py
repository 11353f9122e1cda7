"""Two views of an image: which is read, and that training is given both."""

from dataclasses import replace

import numpy as np
import pytest

from smlstm.data import FeatureStore
from smlstm.errors import InputError
from smlstm.training import read_config, train
from smlstm.training.examples import read_examples
from smlstm.vision.backbones.base import MIRRORED


@pytest.fixture
def mirror(scenes, tmp_path):
    """A second store: each region's numbers plus 100, all photos but one."""
    with FeatureStore.open(scenes / "features") as store:
        keys = store.keys()[1:]
        regions, context = store.read(keys)
        spec = replace(store.spec, preprocessing=store.spec.preprocessing + MIRRORED)
    with FeatureStore.open(tmp_path / "mirror", spec) as second:
        second.append(keys, regions + np.float16(100), context + np.float16(100))
    return tmp_path / "mirror"


def test_views_are_read_as_asked(recipe, mirror):
    config = read_config(recipe, [f"data.0.mirrored={mirror}"])
    training, dev, _ = read_examples(config.data)
    images = np.array([5, 0, 7])
    plain = training.images.read(images)
    wanted = np.array([True, True, False])
    mixed = training.images.read(images, True, wanted)
    moved = (mixed.regions - plain.regions).float().mean((1, 2)).round()
    assert moved.tolist() == [100, 0, 0], "the first photo has no second view"
    for _ in range(2):  # read, then kept
        contexts = training.images.read(images, False, wanted).context
        assert (contexts - plain.context).float().mean(1).round().tolist() == [100, 0, 0]
    assert (dev.images.read(np.arange(3), True, np.ones(3, bool)).regions < 50).all(), "dev is seen as it is"


def test_training_draws_views_and_is_the_same_for_a_seed(recipe, mirror, tmp_path):
    runs = {}
    for name, settings in (
        ("plain", []),
        ("both", [f"data.0.mirrored={mirror}"]),
        ("again", [f"data.0.mirrored={mirror}"]),
    ):
        config = read_config(recipe, [*settings, "stage.mnlm.epochs=1"])
        train(config, tmp_path / name, stages=["mnlm"])
        runs[name] = (tmp_path / name / "mnlm" / "model" / "model.safetensors").read_bytes()
    assert runs["both"] == runs["again"]
    assert runs["both"] != runs["plain"]


def test_a_store_that_is_no_mirror_is_refused(recipe, scenes):
    config = read_config(recipe, [f"data.0.mirrored={scenes / 'features'}"])
    with pytest.raises(InputError, match="not the mirrored view"):
        read_examples(config.data)
