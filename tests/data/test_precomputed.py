import pickle
from pathlib import Path

import numpy as np
import pytest

from smlstm.data import Features, FeatureStore, open_dataset, open_features
from smlstm.data.precomputed import PrecomputedFeatures
from smlstm.errors import InputError
from tests.data.made_features import SPEC, fill
from tests.data.test_layouts import rows


def make(path: Path, split: str, array: np.ndarray, captions: int, ids: list[str] | None = None) -> None:
    np.save(path / f"{split}_ims.npy", array)
    (path / f"{split}_caps.txt").write_text("".join(f"{split} {number}\n" for number in range(captions)))
    if ids is not None:
        (path / f"{split}_ids.txt").write_text("\n".join(ids) + "\n")


def noise(*shape: int) -> np.ndarray:
    return np.random.default_rng(shape).standard_normal(shape).astype(np.float32)


def test_regions_get_their_mean_as_context(tmp_path: Path) -> None:
    train, dev = noise(3, 4, 6), noise(2, 4, 6)
    make(tmp_path, "train", train, 15)
    make(tmp_path, "dev", dev, 6)
    dataset, features = open_dataset(tmp_path), open_features(tmp_path)
    assert isinstance(features, PrecomputedFeatures)
    assert isinstance(features, Features)
    assert dataset.splits == {"train": 3, "dev": 2}
    assert dataset.missing == ()
    assert rows(dataset)[1] == ("train/1", "train", tuple(f"train {number}" for number in range(5, 10)))
    assert rows(dataset)[4] == ("dev/1", "dev", ("dev 3", "dev 4", "dev 5"))
    assert features.keys() == [record.key for record in dataset.records]
    assert (features.spec.regions, features.spec.region_width, features.spec.context_width) == (4, 6, 6)
    regions, context = features.read(["dev/1", "train/2", "dev/1"])
    expected = np.stack([dev[1], train[2], dev[1]])
    np.testing.assert_array_equal(regions, expected.astype(np.float16))
    np.testing.assert_allclose(context, expected.mean(axis=1), atol=1e-3)
    np.testing.assert_array_equal(features.read_at([4])[0], regions[:1])
    assert all(isinstance(part.array, np.memmap) for part in features._parts)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(features)).read(["dev/1"])[0], regions[:1])
    with pytest.raises(InputError, match='the first is "x"'):
        features.read(["x"])
    with pytest.raises(InputError, match="rows 0 to 4, not 5"):
        features.read_at([5])


def test_global_features_are_one_region(tmp_path: Path) -> None:
    array = noise(2, 6)
    make(tmp_path, "val", array, 2)
    features = open_features(tmp_path)
    assert (features.spec.regions, features.spec.region_width, features.spec.context_width) == (1, 6, 6)
    regions, context = features.read_at([1])
    np.testing.assert_array_equal(regions[0, 0], array[1].astype(np.float16))
    np.testing.assert_array_equal(context, regions[:, 0])
    assert rows(open_dataset(tmp_path)) == [("val/0", "dev", ("val 0",)), ("val/1", "dev", ("val 1",))]


def test_images_repeated_for_each_caption_count_once(tmp_path: Path) -> None:
    array = noise(4, 6)
    make(tmp_path, "train", np.repeat(array, 5, axis=0), 20)
    dataset, features = open_dataset(tmp_path), open_features(tmp_path)
    assert len(dataset) == len(features) == 4
    assert {len(record.captions) for record in dataset.records} == {5}
    np.testing.assert_array_equal(features.read_at([0, 1, 2, 3])[1], array.astype(np.float16))


@pytest.mark.parametrize("repeated", [False, True])
def test_ids_of_each_caption_allow_any_number_of_captions(tmp_path: Path, repeated: bool) -> None:
    array = noise(3, 4, 6)
    ids = ["77", "77", "5", "5", "5", "9"]
    make(tmp_path, "test", np.repeat(array, [2, 3, 1], axis=0) if repeated else array, 6, ids)
    assert rows(open_dataset(tmp_path)) == [
        ("test/77", "test", ("test 0", "test 1")),
        ("test/5", "test", ("test 2", "test 3", "test 4")),
        ("test/9", "test", ("test 5",)),
    ]
    np.testing.assert_array_equal(open_features(tmp_path).read(["test/5"])[0][0], array[1].astype(np.float16))


def test_ids_of_each_image_become_keys(tmp_path: Path) -> None:
    make(tmp_path, "test", noise(2, 4, 6), 10, ["77", "5"])
    assert [record.key for record in open_dataset(tmp_path).records] == ["test/77", "test/5"]


def test_what_does_not_fit_is_a_sentence(tmp_path: Path) -> None:
    make(tmp_path, "train", noise(3, 4, 6), 7)
    with pytest.raises(InputError, match="3 images and 7 captions, which is no whole number"):
        open_dataset(tmp_path)
    make(tmp_path, "train", noise(3, 4, 6), 6, ["1", "1", "2", "2", "2", "2"])
    with pytest.raises(InputError, match="has 3 images, but its _ids name 2 images for 6 captions"):
        open_dataset(tmp_path)
    make(tmp_path, "train", np.arange(12), 12)
    with pytest.raises(InputError, match=r"has shape \(12,\) of int64"):
        open_dataset(tmp_path)
    for damaged in (b"\x93NUMPY cut", b"", b"PK\x03\x04 a zip", pickle.dumps(3)):
        (tmp_path / "train_ims.npy").write_bytes(damaged)
        with pytest.raises(InputError, match=r"not a whole \.npy array of numbers: it is damaged") as caught:
            open_dataset(tmp_path)
        assert "pickle" not in str(caught.value)


def test_both_test_sets_of_coco_can_be_chosen(tmp_path: Path) -> None:
    make(tmp_path, "test", noise(2, 4, 6), 2)
    make(tmp_path, "testall", noise(3, 4, 6), 3)
    dataset = open_dataset(tmp_path)
    assert [record.key for record in dataset.split("test")] == ["test/0", "test/1"]
    assert dataset.notes == ("testall_ims.npy was left out: --split-scheme testall takes it for the test split",)
    larger = open_dataset(tmp_path, "testall")
    assert [record.key for record in larger.split("test")] == ["testall/0", "testall/1", "testall/2"]
    features = open_features(tmp_path)
    assert all(record.key in features for record in (*dataset.records, *larger.records))
    (tmp_path / "test_ims.npy").unlink()
    assert len(open_dataset(tmp_path)) == 3
    with pytest.raises(InputError, match=r"has no test_ims\.npy"):
        open_dataset(tmp_path, "test")


def test_splits_of_different_shapes_and_infinite_numbers_are_refused(tmp_path: Path) -> None:
    array = noise(3, 4, 6)
    array[1, 2, 3] = 1e6
    make(tmp_path, "train", array, 3)
    features = open_features(tmp_path)
    features.read_at([0, 2])
    with pytest.raises(InputError, match="row 1 are not all finite"):
        features.read_at([0, 1])
    make(tmp_path, "dev", noise(3, 5, 6), 3)
    with pytest.raises(InputError, match="different shapes"):
        open_features(tmp_path)


def test_features_open_as_what_they_are(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="neither a feature store nor precomputed"):
        open_features(tmp_path)
    fill(tmp_path / "store", [["a"]])
    store = open_features(tmp_path / "store")
    assert isinstance(store, FeatureStore)
    assert store.spec == SPEC
    with pytest.raises(InputError, match="is a feature store, not a dataset"):
        open_dataset(tmp_path / "store")
