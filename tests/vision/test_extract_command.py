import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.command_line import smlstm, smlstm_process
from tests.permissions import bounded_by_permissions

from smlstm.data import FeatureStore


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
    assert not (store / "skipped.jsonl").exists()

    second = smlstm("extract", folder, "--out", store, "--grid", 2, "--batch", 2, "--json")
    assert second.returncode == 0, second.stderr
    summary = json.loads(second.stdout)
    assert (summary["extracted"], summary["already_stored"], summary["skipped"]) == (5, 4, 1)
    (line,) = (store / "skipped.jsonl").read_text().splitlines()
    skipped = json.loads(line)
    assert skipped["key"] == "bad.jpg"
    assert "not in a format" in skipped["reason"]
    # One line, however long, also where the output is no terminal and nobody knows its width.
    assert f"skipped {folder / 'bad.jpg'}: {skipped['reason']}" in second.stderr.splitlines()

    with FeatureStore.open(store) as features:
        assert sorted(features.keys()) == [f"{index}.jpg" for index in range(9)]
        assert features.read(["3.jpg"])[0].shape == (1, 4, 1280)


def test_a_photo_that_cannot_be_reached_is_counted_apart_and_taken_in_by_the_next_run(folder, tmp_path):
    photos, options = tmp_path / "photos", ("--out", tmp_path / "store", "--grid", 2)
    photos.mkdir()
    shutil.copy(folder / "0.jpg", photos)
    (photos / "away.jpg").symlink_to(tmp_path / "away.jpg")
    done = smlstm("extract", photos, *options, "--json")
    summary = json.loads(done.stdout)
    assert (summary["extracted"], summary["skipped"], summary["unreachable"]) == (1, 0, 1)
    assert "not reachable now" in done.stderr
    assert json.loads((tmp_path / "store" / "skipped.jsonl").read_text())["unreachable"] is True
    assert "1 not reachable now: see" in smlstm("extract", photos, *options).stdout
    shutil.copy(folder / "1.jpg", tmp_path / "away.jpg")
    summary = json.loads(smlstm("extract", photos, *options, "--json").stdout)
    assert (summary["extracted"], summary["already_stored"], summary["unreachable"]) == (1, 1, 0)


def test_another_grid_does_not_mix(folder, tmp_path):
    assert smlstm("extract", folder, "--out", tmp_path / "store", "--grid", 2, "--limit", 1).returncode == 0
    mixed = smlstm("extract", folder, "--out", tmp_path / "store", "--grid", 3, "--limit", 1)
    assert mixed.returncode == 3
    assert '"regions" is 4, not 9' in mixed.stderr
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


@pytest.fixture
def in_tmp_path(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("options", "code", "sentence"),
    [
        (("--runtime", "abacus"), 2, "there is no runtime 'abacus'"),
        (("--split", "test"), 2, 'has no "test" split; it has train'),
        (("--split", "bogus"), 2, 'has no "bogus" split; it has train'),
        (("--split-scheme", "kiros"), 2, 'has no split scheme "kiros"'),
        (("--weights", "junk.pth"), 2, "junk.pth is not a readable weights file"),
        (("--no-such-option",), 2, "No such option"),
        (("--out", "file/store"), 1, "file/store cannot be written: Not a directory"),
    ],
)
def test_a_failed_run_leaves_no_store(folder, in_tmp_path, options, code, sentence):
    (in_tmp_path / "file").touch()
    (in_tmp_path / "junk.pth").write_text("hello world")
    done = smlstm("extract", folder, "--out", "store", "--grid", 2, *options)
    assert done.returncode == code
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr
    assert not (in_tmp_path / "store").exists()


@pytest.mark.slow
def test_what_permissions_forbid_is_a_sentence(folder, tmp_path):
    bound = bounded_by_permissions()
    for name in ("readonly", "closed/inner"):
        (tmp_path / name).mkdir(parents=True)
    done = smlstm("extract", folder, "--out", tmp_path / "store", "--grid", 2, "--limit", 1)
    assert done.returncode == 0, done.stderr
    (tmp_path / "store" / "records.f16").chmod(0o400)
    (tmp_path / "readonly").chmod(0o500)
    (tmp_path / "closed").chmod(0)
    for arguments, code, sentence in (
        (("extract", folder, "--out", tmp_path / "readonly" / "s", "--grid", 2), 1, "cannot be written: Permission"),
        (("extract", folder, "--out", tmp_path / "store", "--grid", 2), 1, "cannot be written: Permission denied"),
        (("extract", tmp_path / "closed" / "inner", "--out", tmp_path / "t"), 3, "cannot be read: Permission denied"),
        (("data", "check", tmp_path / "closed" / "inner"), 3, "cannot be read: Permission denied"),
    ):
        done = smlstm_process(*arguments, before=bound)
        assert (done.returncode, done.stderr.count("\n")) == (code, 1 if "check" in arguments or code == 3 else 2)
        assert sentence in done.stderr
        assert "Traceback" not in done.stderr
    (tmp_path / "closed").chmod(0o700)


def test_photos_can_be_extracted_into_their_own_folder_again_and_again(folder, tmp_path):
    photos = tmp_path / "photos"
    shutil.copytree(folder, photos)
    for extracted in (9, 0):
        done = smlstm("extract", photos, "--out", photos / "store", "--grid", 2, "--json")
        assert done.returncode == 0, done.stderr
        summary = json.loads(done.stdout)
        assert (summary["extracted"], summary["skipped"]) == (extracted, 1)


def test_another_photo_under_a_stored_name_is_said_and_the_rest_goes_on(folder, tmp_path):
    first, second, store = tmp_path / "a", tmp_path / "b", tmp_path / "store"
    for photos, names in ((first, "01"), (second, "012")):
        photos.mkdir()
        for name in names:
            shutil.copy(folder / f"{name}.jpg", photos / f"{name}.jpg")
    shutil.copy(folder / "7.jpg", second / "1.jpg")
    assert smlstm("extract", first, "--out", store, "--grid", 2).returncode == 0
    done = smlstm("extract", second, "--out", store, "--grid", 2, "--json")
    summary = json.loads(done.stdout)
    assert (summary["extracted"], summary["already_stored"], summary["changed"]) == (1, 1, 1)
    assert done.returncode == 3
    assert f"skipped {second / '1.jpg'}: the store has the features of another photo under its name" in done.stderr
    assert "has features of other photos under the names of 1 of these" in done.stderr
    assert json.loads((store / "skipped.jsonl").read_text())["key"] == "1.jpg"
    assert smlstm("extract", first, "--out", store, "--grid", 2).returncode == 0
    shutil.copy(folder / "8.jpg", first / "0.jpg")
    assert smlstm("extract", first, "--out", store, "--grid", 2).returncode == 3


def test_features_that_are_there_already_are_not_extracted(tmp_path):
    np.save(tmp_path / "train_ims.npy", np.zeros((1, 2, 3), np.float32))
    (tmp_path / "train_caps.txt").write_text("A dog\n")
    done = smlstm("extract", tmp_path, "--out", tmp_path / "store")
    assert done.returncode == 3
    assert "holds features already, not photos" in done.stderr


def test_the_split_scheme_chooses_the_split(folder, tmp_path):
    listing = {"images": [{"filename": "0.jpg", "split": "test", "sentences": [{"raw": "a"}]}]}
    (tmp_path / "dataset_flickr8k.json").write_text(json.dumps(listing))
    (tmp_path / "Flickr8k.token.txt").write_text("0.jpg#0\ta\n1.jpg#0\tb\n")
    (tmp_path / "Flickr_8k.trainImages.txt").write_text("1.jpg")
    (tmp_path / "Images").symlink_to(folder)
    options = ("--out", tmp_path / "store", "--grid", 2, "--split-scheme", "karpathy", "--split", "test")
    assert smlstm("extract", tmp_path, *options).returncode == 0
    with FeatureStore.open(tmp_path / "store") as features:
        assert features.keys() == ["0.jpg"]


def test_an_interrupted_run_says_what_is_stored_and_how_to_go_on(folder, tmp_path, monkeypatch):
    store, append = tmp_path / "store", FeatureStore.append

    def append_twice(self, *batch):
        if len(self) == 4:
            raise KeyboardInterrupt
        append(self, *batch)

    monkeypatch.setattr(FeatureStore, "append", append_twice)
    done = smlstm("extract", folder, "--out", store, "--grid", 2, "--batch", 2)
    assert done.returncode == 130
    assert done.stderr.splitlines()[-1] == f"smlstm: interrupted: 4 stored in {store}; the same command continues"
    monkeypatch.setattr(FeatureStore, "append", append)
    again = smlstm("extract", folder, "--out", store, "--grid", 2, "--json")
    assert json.loads(again.stdout)["already_stored"] == 4


def test_the_text_summary(folder, tmp_path):
    done = smlstm("extract", folder, "--out", tmp_path / "store", "--grid", 2)
    assert done.stdout.startswith(f"9 photos extracted into {tmp_path / 'store'} in ")
    assert f"1 skipped: see {tmp_path / 'store' / 'skipped.jsonl'}" in done.stdout


def test_a_mirrored_store_holds_the_features_of_mirrored_photos_and_does_not_mix(folder, tmp_path):
    flipped = tmp_path / "flipped"
    flipped.mkdir()
    photo = Image.open(folder / "0.jpg")
    photo.save(flipped / "a.png")
    photo.transpose(Image.Transpose.FLIP_LEFT_RIGHT).save(flipped / "b.png")
    for name, flags in (("plain", []), ("mirror", ["--mirrored"])):
        done = smlstm("extract", flipped, "--out", tmp_path / name, "--grid", 2, *flags)
        assert done.returncode == 0, done.stderr
    with FeatureStore.open(tmp_path / "plain") as plain, FeatureStore.open(tmp_path / "mirror") as mirror:
        (a, _), (b, _), (c, _) = plain.read(["a.png"]), plain.read(["b.png"]), mirror.read(["a.png"])
    assert np.allclose(c, b, atol=2e-2)
    assert not np.allclose(c, a, atol=2e-2)
    mixed = smlstm("extract", flipped, "--out", tmp_path / "plain", "--grid", 2, "--mirrored")
    assert mixed.returncode == 3
    assert '"preprocessing" is' in mixed.stderr


def test_lower_blocks_are_stored_and_mix_with_nothing_else(folder, tmp_path):
    for name, flags in (("15", ["--below", 15]), ("seen", ["--below", 15, "--augmented", 3])):
        done = smlstm("extract", folder, "--out", tmp_path / name, "--grid", 2, "--limit", 3, *flags)
        assert done.returncode == 0, done.stderr
    with FeatureStore.open(tmp_path / "15") as plain, FeatureStore.open(tmp_path / "seen") as seen:
        assert (plain.spec.regions, plain.spec.region_width, plain.spec.context_width) == (16, 120, 120)
        assert plain.spec.preprocessing.endswith("; blocks below 15")
        assert seen.spec.preprocessing == plain.spec.preprocessing + "; augmented 3"
        assert not np.allclose(plain.read(["0.jpg"])[0], seen.read(["0.jpg"])[0], atol=2e-2)
    for flags in ([], ["--below", 14], ["--below", 15, "--mirrored"]):
        mixed = smlstm("extract", folder, "--out", tmp_path / "15", "--grid", 2, *flags)
        assert mixed.returncode == 3 and "features whose" in mixed.stderr
    for flags, said in (
        (["--below", 22], "below 22 is outside 1 to 21"),
        (["--mirrored", "--augmented", 1], "leave --mirrored out"),
        (["--below", 15, "--runtime", "openvino-int8"], "for all blocks of efficientnet-lite2"),
    ):
        refused = smlstm("extract", folder, "--out", tmp_path / "other", "--grid", 2, *flags)
        assert refused.returncode == 2 and said in refused.stderr, refused.stderr


def test_the_same_seed_gives_the_same_features(folder, tmp_path):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        done = smlstm("extract", folder, "--out", tmp_path / name, "--grid", 2, "--limit", 2, "--augmented", seed)
        assert done.returncode == 0, done.stderr
    a, b, c = ((tmp_path / name / "records.f16").read_bytes() for name in "abc")
    assert a == b != c
