from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from smlstm.data import FeatureStore, open_dataset, open_features
from smlstm.errors import InputError
from smlstm.evaluation import feature_plan
from smlstm.evaluation.feature_plan import plan_features
from smlstm.evaluation.models import load_candidates
from smlstm.vision import tuning
from smlstm.vision.extract import ExtractedBatch, Skipped
from smlstm.vision.photo_header import About
from tests.evaluation.made import SPEC, WIDTH, save_mnlm, write_scenes


class MadeBackbone:
    """Stands in for a network that takes seconds: the mean colour of a photo, in every region."""

    name, weights_sha256, preprocessing = SPEC.backbone, SPEC.weights_sha256, SPEC.preprocessing
    regions, region_width, context_width = SPEC.regions, SPEC.region_width, SPEC.context_width
    facts = SPEC.to_dict()


class MadeExtractor:
    def __init__(self, backbone):
        pass

    def extract(self, photos):
        for key, path in photos:
            try:
                colour = np.asarray(Image.open(path).convert("L")).mean() / 255
            except OSError:
                empty = np.empty((0, SPEC.regions, WIDTH), np.float16), np.empty((0, WIDTH), np.float16)
                yield batch([], *empty, [Skipped(key, str(path), "no photo")])
                continue
            yield batch([key], *(np.full(s, colour, np.float16) for s in ((1, SPEC.regions, WIDTH), (1, WIDTH))), [])


def batch(keys, regions, context, skipped):
    return ExtractedBatch(keys, regions, context, [""] * len(keys), [About()] * len(keys), skipped)


@pytest.fixture
def made(monkeypatch, tmp_path):
    """A backbone by the name of the scenes' features, and a cache of its own."""
    asked = []

    def load(name, grid=None, weights=None):
        asked.append((name, grid))
        return MadeBackbone()

    monkeypatch.setattr(tuning, "load_backbone", load)
    monkeypatch.setattr(feature_plan, "Extractor", MadeExtractor)
    monkeypatch.setenv("SMLSTM_CACHE", str(tmp_path / "cache"))
    return asked


@pytest.fixture
def world(tmp_path):
    return write_scenes(tmp_path / "scenes", photos=True)


def read(folder):
    dataset = open_dataset(folder / "captions.csv")
    return dataset, dataset.split("dev")


def test_a_whole_store_needs_no_backbone(world, tmp_path):
    candidates = load_candidates([save_mnlm(tmp_path / "a"), save_mnlm(tmp_path / "b", seed=1)])
    plans = plan_features(candidates, *read(world), features=world / "features")
    assert list(plans) == ["patches"]
    assert plans["patches"].missing == ()
    assert len(plans["patches"].complete()) == 16


def test_missing_photos_are_extracted_once_into_the_cache(world, tmp_path, made):
    candidates = load_candidates([save_mnlm(tmp_path / "a")])
    plan = plan_features(candidates, *read(world), grid=3)["patches"]
    assert made == [("patches", 3)]
    assert len(plan.missing) == 12
    assert not (tmp_path / "cache").exists(), "a plan writes nothing"
    told = []
    features = plan.complete(lambda done, total: told.append((done, total)))
    assert told == [(n, 12) for n in range(1, 13)]
    assert sorted(features.keys()) == [f"{n:03}.png" for n in range(4, 16)]
    again = plan_features(candidates, *read(world), grid=3)["patches"]
    assert again.missing == ()
    assert again.where == plan.where
    assert again.where.is_relative_to(tmp_path / "cache" / "features")


def test_photos_that_were_changed_are_extracted_anew_into_the_cache(world, tmp_path, made):
    candidates = load_candidates([save_mnlm(tmp_path / "a")])
    before, _ = plan_features(candidates, *read(world), grid=3)["patches"].complete().read(["004.png", "005.png"])
    one, other = (world / "004.png").read_bytes(), (world / "005.png").read_bytes()
    (world / "004.png").write_bytes(other)
    (world / "005.png").write_bytes(one)
    plan = plan_features(candidates, *read(world), grid=3)["patches"]
    assert len(plan.missing) == 12
    after, _ = plan.complete().read(["005.png", "004.png"])
    assert np.array_equal(before, after) and not np.array_equal(before[0], before[1])
    assert plan_features(candidates, *read(world), grid=3)["patches"].missing == ()
    (world / "004.png").unlink()
    assert plan_features(candidates, *read(world), grid=3)["patches"].missing == (), "stored photos may be gone"


def test_a_store_is_continued_with_its_own_grid(world, tmp_path, made):
    with FeatureStore.open(tmp_path / "store", SPEC) as store:
        store.append(["004.png"], np.ones((1, 9, 8)), np.ones((1, 8)))
    plan = plan_features(load_candidates([save_mnlm(tmp_path / "a")]), *read(world), features=tmp_path / "store")
    assert made == [("patches", 3)]
    assert len(plan["patches"].missing) == 11
    assert len(plan["patches"].complete()) == 12


def test_a_store_of_other_weights_is_not_continued(world, tmp_path, made):
    FeatureStore.open(tmp_path / "store", replace(SPEC, weights_sha256="f" * 64)).close()
    with pytest.raises(InputError, match='cannot be added: its "weights_sha256" is'):
        plan_features(load_candidates([save_mnlm(tmp_path / "a")]), *read(world), features=tmp_path / "store")


def test_photos_that_are_gone_or_broken_are_named(world, tmp_path, made):
    candidates = load_candidates([save_mnlm(tmp_path / "a")])
    (world / "007.png").write_bytes(b"broken")
    plan = plan_features(candidates, *read(world))["patches"]
    with pytest.raises(InputError, match=r"1 photos cannot be used, the first is .*007.png: no photo"):
        plan.complete()
    assert len(open_features(plan.where)) == 11, "the others are stored"
    Image.new("L", (4, 4), 9).save(world / "007.png")
    assert [record.key for record in plan_features(candidates, *read(world))["patches"].missing] == ["007.png"]
    (world / "007.png").unlink()
    with pytest.raises(InputError, match=r"no features of 1 of 12 .* 1 of 1 photos are not there, .*007.png"):
        plan_features(candidates, *read(world))
    with pytest.raises(InputError, match=r"^1 of 12 photos are not there, the first is .*007.png"):
        plan_features(candidates, *read(world), features=tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_backbone_that_cannot_be_loaded_is_no_dead_end(world, tmp_path):
    candidates = load_candidates([save_mnlm(tmp_path / "a")])
    with pytest.raises(InputError, match="a was trained on cannot be extracted .*no backbone 'patches'.*--features"):
        plan_features(candidates, *read(world))
    with pytest.raises(InputError, match="does not say which backbone"):
        plan_features(load_candidates([save_mnlm(tmp_path / "b", backbone="")]), *read(world))


def test_the_second_model_is_checked_too(world, tmp_path):
    models = [save_mnlm(tmp_path / "a"), save_mnlm(tmp_path / "b", backbone="vgg19")]
    with pytest.raises(InputError, match="b was trained on features of vgg19"):
        plan_features(load_candidates(models), *read(world), features=world / "features")
    models[1] = save_mnlm(tmp_path / "c", region_width=9)
    with pytest.raises(InputError, match="c reads features of region_width 9"):
        plan_features(load_candidates(models), *read(world), features=world / "features")


def test_precomputed_arrays_bring_their_own_features(tmp_path):
    folder = tmp_path / "precomp"
    folder.mkdir()
    np.save(folder / "dev_ims.npy", np.random.default_rng(0).normal(size=(4, 9, 8)).astype(np.float32))
    (folder / "dev_caps.txt").write_text("".join(f"a red square {n}\n" for n in range(8)))
    dataset = open_dataset(folder)
    candidates = load_candidates([save_mnlm(tmp_path / "a", backbone="precomputed")])
    plans = plan_features(candidates, dataset, dataset.split("dev"))
    assert len(plans["precomputed"].complete()) == 4


def test_a_folder_of_other_things_is_no_store(world, tmp_path):
    with pytest.raises(InputError, match="has no features"):
        plan_features(load_candidates([save_mnlm(tmp_path / "a")]), *read(world), features=world)
