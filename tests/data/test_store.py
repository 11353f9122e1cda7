import dataclasses
import json
import os
import pickle
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from smlstm.data import Features, FeatureStore
from smlstm.errors import InputError, SmlstmError
from tests.data.made_features import SPEC, assert_holds, features, fill
from tests.permissions import bounded_by_permissions


def test_what_was_appended_is_read_in_any_order(tmp_path: Path) -> None:
    fill(tmp_path / "new" / "store", [["a", "b"], ["c"]])
    fill(tmp_path / "new" / "store", [["ü/d.jpg", "\udce9.jpg"]])
    store = FeatureStore.open(tmp_path / "new" / "store")
    assert isinstance(store, Features)
    assert store.spec == SPEC
    assert len(store) == 5
    assert "c" in store
    assert "e" not in store
    assert_holds(store, ["a", "b", "c", "ü/d.jpg", "\udce9.jpg"])
    for got, expected in zip(store.read(["c", "a", "c"]), features(["c", "a", "c"]), strict=True):
        np.testing.assert_array_equal(got, expected)
        assert got.dtype == np.float16
    np.testing.assert_array_equal(store.read_at(np.array([2, 0]))[0], store.read(["c", "a"])[0])
    assert store.rows(["c", "b"]).tolist() == [2, 1]
    assert store.read([])[0].shape == (0, 4, 6)


def test_a_reader_sees_what_was_complete_when_it_opened(tmp_path: Path) -> None:
    writer = FeatureStore.open(tmp_path, SPEC)
    assert len(FeatureStore.open(tmp_path)) == 0
    writer.append(["a"], *features(["a"]))
    reader = FeatureStore.open(tmp_path)
    writer.append(["b"], *features(["b"]))
    assert_holds(reader, ["a"])
    assert_holds(writer, ["a", "b"])
    assert_holds(FeatureStore.open(tmp_path), ["a", "b"])


def test_a_pickled_copy_reads_the_same(tmp_path: Path) -> None:
    fill(tmp_path, [["a", "b"]])
    copy = pickle.loads(pickle.dumps(FeatureStore.open(tmp_path)))
    assert_holds(copy, ["a", "b"])
    assert not copy.writable


def test_reading_does_not_hold_the_set_in_memory(tmp_path: Path) -> None:
    spec = dataclasses.replace(SPEC, regions=50, region_width=500)
    with FeatureStore.open(tmp_path, spec) as store:
        block, context = np.ones((100, 50, 500), np.float16), np.ones((100, 3), np.float16)
        for start in range(0, 400, 100):
            store.append([str(start + place) for place in range(100)], block, context)
    tracemalloc.start()
    store = FeatureStore.open(tmp_path)
    for row in range(0, 400, 7):
        store.read_at([row, (row * 13) % 400])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.1 * 400 * store.record_bytes


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("backbone", "vgg19"),
        ("weights_sha256", "cd34"),
        ("preprocessing", "448 px"),
        ("regions", 5),
        ("region_width", 7),
        ("context_width", 4),
    ],
)
def test_other_features_are_refused_by_the_field(tmp_path: Path, field: str, value: object) -> None:
    fill(tmp_path, [["a"]])
    other = dataclasses.replace(SPEC, **{field: value})
    with pytest.raises(InputError, match=f'"{field}" is {getattr(SPEC, field)!r}, not {value!r}'):
        FeatureStore.open(tmp_path, other)
    assert_holds(FeatureStore.open(tmp_path, SPEC), ["a"])


def test_another_grid_is_refused_by_its_regions(tmp_path: Path) -> None:
    fill(tmp_path, [["a"]])
    other = dataclasses.replace(SPEC, regions=9, preprocessing="squashed to 96x96")
    with pytest.raises(InputError, match='"regions" is 4, not 9'):
        FeatureStore.open(tmp_path, other)


def test_a_key_is_stored_once(tmp_path: Path) -> None:
    store = FeatureStore.open(tmp_path, SPEC)
    store.append(["a"], *features(["a"]))
    with pytest.raises(InputError, match='"a" is stored already'):
        store.append(["b", "a"], *features(["b", "a"]))
    with pytest.raises(InputError, match='"b" is stored already'):
        store.append(["b", "b"], *features(["b", "b"]))
    with pytest.raises(InputError, match="not empty"):
        store.append([""], *features([""]))
    assert_holds(store, ["a"])


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e6])
@pytest.mark.parametrize("which", [0, 1])
def test_numbers_that_are_not_finite_are_refused(tmp_path: Path, value: float, which: int) -> None:
    store = FeatureStore.open(tmp_path, SPEC)
    arrays = [array.astype(np.float32) for array in features(["a", "b"])]
    arrays[which][1, -1] = value
    with pytest.raises(InputError, match='features of "b" are not all finite'):
        store.append(["a", "b"], *arrays)
    assert len(store) == 0


def test_arrays_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    store = FeatureStore.open(tmp_path, SPEC)
    regions, context = features(["a", "b"])
    with pytest.raises(InputError, match=r"regions have shape \(2, 4, 6\), these keys need \(1, 4, 6\)"):
        store.append(["a"], regions, context)
    with pytest.raises(InputError, match=r"context have shape \(2, 2\)"):
        store.append(["a", "b"], regions, context[:, :2])
    with pytest.raises(InputError, match="int64, not floating"):
        store.append(["a", "b"], regions.astype(int), context)
    with pytest.raises(InputError, match="not the string"):
        store.append("ab", regions, context)


def test_a_store_remembers_what_its_features_were_made_from(tmp_path: Path) -> None:
    fill(tmp_path, [["a"]])  # as all stores were written before there were sources
    with FeatureStore.open(tmp_path, SPEC) as store:
        store.append(["b", "c"], *features(["b", "c"]), sources=["from b", "from c"])
        with pytest.raises(InputError, match="1 sources for 2 keys"):
            store.append(["d", "e"], *features(["d", "e"]), sources=["from d"])
    with FeatureStore.open(tmp_path, SPEC) as store:
        assert [store.source(key) for key in "abcd"] == [None, "from b", "from c", None]
        assert_holds(store, ["a", "b", "c"])
    # An entry as a program wrote it that knew no sources, and one with them, are of one format.
    lines = (tmp_path / "journal.log").read_text().splitlines()
    assert sorted(json.loads(lines[0].split(" ", 2)[2])) == ["crc32", "keys"]
    assert sorted(json.loads(lines[1].split(" ", 2)[2])) == ["crc32", "keys", "sources"]


def run_bounded(path: Path, spec: str) -> subprocess.CompletedProcess[str]:
    """Open a store as someone whom permissions bind."""
    imports = "from smlstm.data import FeatureStore; from tests.data.made_features import SPEC; "
    command = [*bounded_by_permissions(), sys.executable, "-c", f"{imports}FeatureStore.open({str(path)!r}{spec})"]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2])


def test_what_the_system_refuses_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SmlstmError, match=f"{tmp_path}/file/store cannot be written: Not a directory"):
        FeatureStore.open(tmp_path / "file" / "store", SPEC)
    fill(tmp_path / "store", [["a"]])
    for mode, name, spec, message in (
        (0o500, ".", ", SPEC", "SmlstmError: {0}/new cannot be written: Permission denied"),
        (0o400, "store/writer.lock", ", SPEC", "{0}/store/writer.lock cannot be written: Permission denied"),
        (0, "store/store.json", "", "InputError: {0}/store/store.json cannot be read: Permission denied"),
        (0, "store/journal.log", "", "InputError: {0}/store/journal.log cannot be read: Permission denied"),
        (0, "store", "", "InputError: {0}/store/store.json cannot be read: Permission denied"),
    ):
        before = (tmp_path / name).stat().st_mode
        (tmp_path / name).chmod(mode)
        done = run_bounded(tmp_path / ("new" if name == "." else "store"), spec)
        (tmp_path / name).chmod(before)
        assert done.stderr.splitlines()[-1].endswith(message.format(tmp_path)), done.stderr


def test_unknown_keys_and_rows_are_refused_by_name(tmp_path: Path) -> None:
    fill(tmp_path, [["a", "b"]])
    store = FeatureStore.open(tmp_path)
    with pytest.raises(InputError, match='no features of 1 of 2 images, the first is "z"'):
        store.read(["a", "z"])
    with pytest.raises(InputError, match="rows 0 to 1, not 2"):
        store.read_at([0, 2])
    with pytest.raises(InputError, match="not -1"):
        store.read_at([-1])
    with pytest.raises(SmlstmError, match="open it with its spec to write"):
        store.append(["c"], *features(["c"]))


def test_a_full_disk_loses_nothing_but_the_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = FeatureStore.open(tmp_path, SPEC)
    store.append(["a"], *features(["a"]))
    for failing in (1, 2):  # while the records, then while the journal is forced to the disk
        calls = iter(range(1, 10))

        def fsync(_: int, calls: object = calls, failing: int = failing) -> None:
            if next(calls) == failing:  # type: ignore[call-overload]
                raise OSError(28, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", fsync)
            with pytest.raises(SmlstmError, match="No space left on device; nothing of this batch"):
                store.append(["b"], *features(["b"]))
        with pytest.raises(SmlstmError, match="open the store again"):
            store.append(["b"], *features(["b"]))
        store.close()
        store = FeatureStore.open(tmp_path, SPEC)
        assert_holds(store, ["a"])
    store.append(["b"], *features(["b"]))
    assert_holds(store, ["a", "b"])


def test_what_is_no_store_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no feature store: it has no store\.json"):
        FeatureStore.open(tmp_path)
    (tmp_path / "photo.jpg").touch()
    with pytest.raises(InputError, match=r'not empty \(it holds "photo\.jpg"\)'):
        FeatureStore.open(tmp_path, SPEC)
    with pytest.raises(InputError, match="is a file"):
        FeatureStore.open(tmp_path / "photo.jpg", SPEC)


@pytest.mark.parametrize("value", ["7", 2.0, None, 0, -1])
def test_a_spec_that_makes_no_sense_is_refused(value: object) -> None:
    with pytest.raises(InputError, match='feature spec: "regions"'):
        dataclasses.replace(SPEC, regions=value)  # type: ignore[arg-type]
