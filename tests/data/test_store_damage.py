import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from smlstm.data import FeatureStore
from smlstm.errors import InputError, SmlstmError
from tests.data.made_features import SPEC, assert_holds, features, fill

# Appends what is missing of many keys, four at a time, and says what it has after each append.
WRITER = """
import sys
from smlstm.data import FeatureStore
from tests.data.made_features import SPEC, features

store = FeatureStore.open(sys.argv[1], SPEC)
print(len(store), flush=True)
wanted = [str(number) for number in range(int(sys.argv[2]))]
todo = [key for key in wanted if key not in store]
for start in range(0, len(todo), 4):
    keys = todo[start : start + 4]
    store.append(keys, *features(keys))
    print(len(store), flush=True)
if "stay" in sys.argv:
    sys.stdin.read()
"""
ROOT = Path(__file__).parents[2]


def start_writer(path: Path, count: int, *more: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WRITER, str(path), str(count), *more]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True, cwd=ROOT)


@pytest.mark.slow
def test_killed_at_any_moment_it_goes_on_and_nothing_is_lost_or_double(tmp_path: Path) -> None:
    rng = random.Random(3)
    reported = 0
    for _ in range(30):
        writer = start_writer(tmp_path / "store", 100_000)
        assert writer.stdout is not None
        # Killed after some appends rather than some time: a slow machine must not make this test a no-op.
        lines = [writer.stdout.readline() for _ in range(rng.randint(0, 6))]
        time.sleep(rng.random() * 0.005)
        writer.send_signal(signal.SIGKILL)
        lines += writer.communicate()[0].splitlines()
        reported = max([reported, *(int(line) for line in lines if line.strip())])
        if (tmp_path / "store" / "store.json").exists():
            store = FeatureStore.open(tmp_path / "store")
            assert len(store) in (reported, reported + 4)
            assert store.keys() == [str(number) for number in range(len(store))]
            store.verify()
    assert reported > 100
    count = reported + 10
    writer = start_writer(tmp_path / "store", count)
    assert int(writer.communicate()[0].split()[-1]) == count
    assert_holds(FeatureStore.open(tmp_path / "store"), [str(number) for number in range(count)])
    assert (tmp_path / "store" / "records.f16").stat().st_size == count * store.record_bytes


def test_a_second_writer_waits_for_the_first_and_a_dead_one_does_not_count(tmp_path: Path) -> None:
    writer = start_writer(tmp_path, 4, "stay")
    assert writer.stdout is not None
    assert [writer.stdout.readline(), writer.stdout.readline()] == ["0\n", "4\n"]
    with pytest.raises(SmlstmError, match=f"is being written by process {writer.pid}"):
        FeatureStore.open(tmp_path, SPEC)
    assert len(FeatureStore.open(tmp_path)) == 4
    writer.kill()
    writer.communicate()
    store = FeatureStore.open(tmp_path, SPEC)
    with pytest.raises(SmlstmError, match="is being written by this process"):
        FeatureStore.open(tmp_path, SPEC)
    store.close()
    FeatureStore.open(tmp_path, SPEC).close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_may_read_but_not_write_nor_free_the_lock(tmp_path: Path) -> None:
    store = FeatureStore.open(tmp_path, SPEC)
    store.append(["a"], *features(["a"]))
    child = os.fork()
    if child == 0:
        code = 1
        try:
            assert_holds(store, ["a"])
            store.append(["b"], *features(["b"]))
        except SmlstmError:
            store.close()
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    second = start_writer(tmp_path, 1)
    assert second.communicate()[0] == ""
    assert second.returncode != 0
    store.append(["b"], *features(["b"]))
    assert_holds(store, ["a", "b"])


def test_a_journal_cut_anywhere_in_its_last_line_loses_that_batch_alone(tmp_path: Path) -> None:
    fill(tmp_path, [["a", "b"], ["c"]])
    journal = tmp_path / "journal.log"
    whole = journal.read_bytes()
    first = whole.index(b"\n") + 1
    for end in range(first, len(whole)):
        journal.write_bytes(whole[:end])
        assert_holds(FeatureStore.open(tmp_path), ["a", "b"])
        fill(tmp_path, [["c"]])
        assert journal.read_bytes() == whole
        assert_holds(FeatureStore.open(tmp_path), ["a", "b", "c"])


def test_any_flipped_bit_of_the_journal_is_noticed(tmp_path: Path) -> None:
    fill(tmp_path, [["a", "b"], ["c"]])
    journal = tmp_path / "journal.log"
    whole = journal.read_bytes()
    for place in range(len(whole)):
        for bit in range(8):
            damaged = bytearray(whole)
            damaged[place] ^= 1 << bit
            journal.write_bytes(damaged)
            with pytest.raises(InputError, match=r"journal\.log is damaged at line [12]"):
                FeatureStore.open(tmp_path)


def test_a_line_taken_out_of_the_journal_is_noticed(tmp_path: Path) -> None:
    fill(tmp_path, [["a"], ["b"], ["c"]])
    journal = tmp_path / "journal.log"
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(lines[0] + lines[2])
    with pytest.raises(InputError, match="damaged at line 2"):
        FeatureStore.open(tmp_path)


def test_records_cut_short_are_noticed_when_opened_and_when_read(tmp_path: Path) -> None:
    fill(tmp_path, [["a", "b", "c"]])
    store = FeatureStore.open(tmp_path)
    with (tmp_path / "records.f16").open("r+b") as file:
        file.truncate(2 * store.record_bytes + 5)
    with pytest.raises(InputError, match="cut short: row 2 has 5 of 54 bytes"):
        store.read(["c"])
    for spec in (None, SPEC):
        with pytest.raises(InputError, match="cut short: 3 images of 54 bytes need 162 bytes, it has 113"):
            FeatureStore.open(tmp_path, spec)
    (tmp_path / "records.f16").unlink()
    with pytest.raises(InputError, match="it has 0"):
        FeatureStore.open(tmp_path)


def test_flipped_bits_of_the_records_are_found_by_verify(tmp_path: Path) -> None:
    fill(tmp_path, [["a", "b"], ["c"]])
    with (tmp_path / "records.f16").open("r+b") as file:
        file.seek(60)
        byte = file.read(1)[0]
        file.seek(60)
        file.write(bytes([byte ^ 4]))
    with pytest.raises(InputError, match=r'the features of "b" \(row 1\) do not fit their checksum'):
        FeatureStore.open(tmp_path).verify()


def test_half_written_records_behind_the_last_batch_do_not_count(tmp_path: Path) -> None:
    fill(tmp_path, [["a", "b"]])
    with (tmp_path / "records.f16").open("ab") as file:
        file.write(b"half a record")
    assert_holds(FeatureStore.open(tmp_path), ["a", "b"])
    fill(tmp_path, [["c"]])
    assert_holds(FeatureStore.open(tmp_path), ["a", "b", "c"])


def test_a_damaged_or_foreign_header_is_a_sentence(tmp_path: Path) -> None:
    fill(tmp_path, [["a"]])
    header = tmp_path / "store.json"
    whole = header.read_bytes()
    content = json.loads(whole)
    for change, message in (
        ({"version": 2}, "is of version 2, this program reads 1"),
        ({"format": "zarr"}, 'does not say "format": "smlstm-features"'),
        ({"spec": {**content["spec"], "regions": 5}}, "damaged: its checksum does not fit"),
    ):
        header.write_text(json.dumps({**content, **change}))
        with pytest.raises(InputError, match=message):
            FeatureStore.open(tmp_path)
    for place in range(len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= 1
        header.write_bytes(damaged)
        try:
            assert_holds(FeatureStore.open(tmp_path), ["a"])  # a changed blank is no damage
        except InputError:
            assert chr(whole[place]) not in " \n" or chr(damaged[place]) not in " \n\t\r"
    header.write_bytes(whole[:40])
    with pytest.raises(InputError, match="damaged"):
        FeatureStore.open(tmp_path)


def test_a_store_killed_before_its_header_was_written_starts_anew(tmp_path: Path) -> None:
    (tmp_path / "writer.lock").write_text("1\n")
    (tmp_path / "store.json.part").write_text('{"form')
    (tmp_path / "skipped.jsonl").touch()  # of a store that was deleted
    fill(tmp_path, [["a"]])
    assert_holds(FeatureStore.open(tmp_path), ["a"])


def test_a_journal_without_its_header_is_not_overwritten(tmp_path: Path) -> None:
    fill(tmp_path, [["a"]])
    (tmp_path / "store.json").unlink()
    with pytest.raises(InputError, match=r"has a journal\.log but no store\.json"):
        FeatureStore.open(tmp_path, SPEC)
