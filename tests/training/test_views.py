"""Several views of an image: which is read, and that training is given all of them."""

from dataclasses import replace

import numpy as np
import pytest

from smlstm.data import FeatureStore
from smlstm.errors import ConfigurationError, InputError
from smlstm.training import read_config, train
from smlstm.training.checkpoint import read_checkpoint
from smlstm.training.read_examples import read_examples
from smlstm.training.run import changed_since
from smlstm.vision.views import Part, View


def make_view(scenes, folder, seen, added, left_out):
    """A store whose numbers are larger than those of the photos themselves, of all photos but some."""
    with FeatureStore.open(scenes / "features") as store:
        keys = store.keys()[left_out:]
        regions, context = store.read(keys)
        spec = replace(store.spec, preprocessing=store.spec.preprocessing + seen)
    with FeatureStore.open(folder, spec) as view:
        view.append(keys, regions + np.float16(added), context + np.float16(added))
    return folder


@pytest.fixture
def mirror(scenes, tmp_path):
    return make_view(scenes, tmp_path / "mirror", View(mirrored=True).text, 100, left_out=1)


def moved(found, plain):
    return (found - plain).float().flatten(1).mean(1).round().tolist()


def test_views_are_read_as_draws_say(recipe, mirror):
    config = read_config(recipe, [f"data.0.views={mirror}"])
    training, dev, _ = read_examples(config.data)
    images, draws = np.array([5, 0, 7]), np.array([0.1, 0.1, 0.7])
    plain = training.images.read(images)
    assert moved(training.images.read(images, True, draws).regions, plain.regions) == [100, 0, 0], (
        "the first photo has no second view"
    )
    for _ in range(2):  # read, then kept
        assert moved(training.images.read(images, False, draws).context, plain.context) == [100, 0, 0]
    assert (dev.images.read(np.arange(3), True, np.zeros(3)).regions < 50).all(), "dev is seen as it is"


def test_any_number_of_views_is_drawn_from_and_says_what_part_it_shows(recipe, scenes, mirror, tmp_path):
    seen = [
        make_view(scenes, tmp_path / str(seed), View(augmented=seed).text, added, left_out=2)
        for seed, added in ((1, 200), (2, 300))
    ]
    training, _, _ = read_examples(
        read_config(recipe, [f"data.0.views={[str(path) for path in (mirror, *seen)]}"]).data
    )
    images, draws = np.array([9, 9, 9, 9, 1, 1]), np.array([0.1, 0.3, 0.6, 0.8, 0.1, 0.6])
    plain = training.images.read(images)
    found = moved(training.images.read(images, True, draws).regions, plain.regions)
    assert found == [300, 200, 100, 0, 100, 0], "the second photo has two views"
    parts = training.images.parts(images, draws)
    key = "3-00009.png"
    assert parts[:4] == [View(augmented=2).part(key), View(augmented=1).part(key), Part(mirrored=True), Part()]


def test_training_draws_views_and_is_the_same_for_a_seed(recipe, mirror, tmp_path):
    runs = {}
    for name, settings in (
        ("plain", []),
        ("both", [f"data.0.views={mirror}"]),
        ("again", [f"data.0.views={mirror}"]),
    ):
        config = read_config(recipe, [*settings, "stage.mnlm.epochs=1"])
        train(config, tmp_path / name, stages=["mnlm"])
        runs[name] = (tmp_path / name / "mnlm" / "model" / "model.safetensors").read_bytes()
    assert runs["both"] == runs["again"]
    assert runs["both"] != runs["plain"]


def test_a_store_that_is_no_other_view_is_refused(recipe, scenes):
    config = read_config(recipe, [f"data.0.views={scenes / 'features'}"])
    with pytest.raises(InputError, match=r"is no other view than .* smlstm extract --mirrored or --augmented SEED"):
        read_examples(config.data)


def test_a_view_by_another_backbone_is_refused(recipe, scenes, tmp_path):
    other = make_view(scenes, tmp_path / "other", "; squashed otherwise" + View(mirrored=True).text, 0, left_out=0)
    with pytest.raises(InputError, match='"preprocessing" is'):
        read_examples(read_config(recipe, [f"data.0.views={other}"]).data)


def test_a_checkpoint_of_another_version_still_fits(recipe, mirror, tmp_path):
    """Written before a setting came, or while one was there that has since gone."""
    config = read_config(recipe, ["stage.mnlm.epochs=1"])
    train(config, tmp_path / "run", stages=["mnlm"])
    written = read_checkpoint(tmp_path / "run" / "mnlm" / "checkpoint.pt").identity
    del written["data"]["0"]["views"], written["stage"]["mnlm"]["clip"]
    written["vectors"], written["data"]["0"]["cropped"], written["stage"]["mnlm"]["ema"] = None, [], 0.0
    written["data"]["0"]["mirrored"] = None
    assert changed_since(written, config, "mnlm") is None
    for setting in (f"data.0.views={mirror}", "stage.mnlm.clip=9"):
        other = read_config(recipe, ["stage.mnlm.epochs=1", setting])
        assert setting.partition("=")[0] in str(changed_since(written, other, "mnlm"))
    written["stage"]["mnlm"]["ema"] = 0.9
    assert "`ema` was taken out" in str(changed_since(written, config, "mnlm"))


def test_an_old_setting_says_what_to_do(recipe, mirror):
    with pytest.raises(ConfigurationError, match="`mirrored` was taken out in 0.2: give the store in the list `views`"):
        read_config(recipe, [f"data.0.mirrored={mirror}"])


def test_dev_is_measured_on_photos_as_they_are(recipe, mirror):
    with pytest.raises(InputError, match=r"does not show photos as they are \(mirrored\)"):
        read_examples(read_config(recipe, [f"data.0.features={mirror}"]).data)
