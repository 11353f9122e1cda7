"""Files that vanish, change or cannot be read for a moment: nothing is held against them, or against their copies."""

import json
import os
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from smlstm.search import indexing
from smlstm.search.lance_table import FILES, content_of, file_id
from tests.command_line import smlstm_process
from tests.permissions import bounded_by_permissions
from tests.search.made import draw, jpeg
from tests.search.test_indexing import counts, found_paths


@pytest.fixture
def after_hashing(monkeypatch):
    """Do something between the moment at which a file was hashed and that at which it is decoded."""

    def set_up(path: Path, act) -> None:
        def hash_then_act(hashed: Path) -> int:
            content = content_of(hashed)
            if hashed == path:
                monkeypatch.undo()
                act()
            return content

        monkeypatch.setattr(indexing, "content_of", hash_then_act)

    return set_up


def test_a_folder_that_is_away_for_a_moment_is_taken_in_by_the_next_run(library, photos, tmp_path, after_hashing):
    draw(photos / "inner", 4, seed=3)
    after_hashing(photos / "inner" / "001.png", lambda: (photos / "inner").rename(tmp_path / "away"))
    outcome = library.index(photos)
    assert counts(outcome) == {"new": 6, "extracted": 6, "unreachable": 4}
    assert outcome.done == outcome.total == 10
    (tmp_path / "away").rename(photos / "inner")
    assert counts(library.index(photos)) == {"new": 4, "extracted": 4, "unchanged": 6}
    assert len(found_paths(library)) == 10


def test_what_cannot_be_read_now_stays_as_it_was_known(library, photos, model):
    library.index(photos)
    os.utime(photos / "000.png", (1, 1))  # so that it is read again
    (photos / "000.png").chmod(0)
    (photos / "new.jpg").write_bytes(jpeg())
    (photos / "new.jpg").chmod(0)
    options = ("--library", library.folder, "--model", model)
    try:
        found = smlstm_process("index", *options, "--json", before=bounded_by_permissions())
    finally:
        (photos / "000.png").chmod(0o644)
        (photos / "new.jpg").chmod(0o644)
    outcome = json.loads(found.stdout)
    assert {(Path(each["path"]).name, each["reason"]) for each in outcome["unreachable"]} == {
        ("000.png", "Permission denied"), ("new.jpg", "Permission denied")
    }  # fmt: skip
    assert (outcome["unchanged"], outcome["skipped"]) == (5, [])
    assert f"not reachable now {photos / 'new.jpg'}: Permission denied" in found.stderr
    assert len(found_paths(library)) == 6
    assert counts(library.index()) == {"new": 1, "extracted": 1, "unchanged": 6}


def test_a_link_to_nowhere_is_looked_at_again(library, photos, tmp_path):
    (photos / "link.png").symlink_to(tmp_path / "elsewhere.png")
    assert counts(library.index(photos)) == {"new": 6, "extracted": 6, "unreachable": 1}
    assert counts(library.index(photos)) == {"unchanged": 6, "unreachable": 1}
    draw(tmp_path / "drawn", 1, seed=7)[0].rename(tmp_path / "elsewhere.png")
    assert counts(library.index(photos)) == {"new": 1, "extracted": 1, "unchanged": 6}
    (tmp_path / "elsewhere.png").unlink()
    assert counts(library.index(photos)) == {"unchanged": 6, "unreachable": 1}
    assert str(photos / "link.png") in found_paths(library)


def test_a_photo_without_a_suffix_that_cannot_be_read_now_is_kept(library, photos, model):
    (photos / "000.png").rename(photos / "scan")
    library.index(photos)
    (photos / "scan").chmod(0)
    options = ("--library", library.folder, "--model", model, "--json")
    try:
        outcome = json.loads(smlstm_process("index", *options, before=bounded_by_permissions()).stdout)
    finally:
        (photos / "scan").chmod(0o644)
    assert outcome["deleted"] == 0 and "scan cannot be read" in outcome["notes"][0]
    assert str(photos / "scan") in found_paths(library)


@pytest.mark.parametrize("loss", [lambda path: path.unlink(), lambda path: path.write_bytes(jpeg()[:300])])
def test_a_copy_takes_the_place_of_a_file_that_was_lost(library, photos, after_hashing, loss):
    copies = [photos / f"00{number} copy.png" for number in range(3)]
    for copy in copies:
        shutil.copy(photos / "000.png", copy)
    lost = min([photos / "000.png", *copies])
    after_hashing(lost, lambda: loss(lost))
    outcome = library.index(photos)
    assert counts(outcome)["new"] == 6 and counts(outcome)["duplicates"] == 2
    assert found_paths(library) == {str(path) for path in photos.iterdir()} - {str(lost)}
    assert len(library.photos) == 6


def test_all_copies_are_refused_for_what_decoding_says(library, photos, after_hashing):
    """The first one is gone when its turn comes, the second is broken: so is the third, unseen."""
    for number in range(3):
        (photos / f"broken {number}.jpg").write_bytes(jpeg()[:300])
    first = photos / "broken 0.jpg"
    after_hashing(first, first.unlink)
    assert counts(library.index(photos)) == {"new": 6, "extracted": 6, "skipped": 2, "unreachable": 1}
    assert counts(library.index(photos)) == {"unchanged": 8}


@pytest.mark.parametrize("known", [True, False])
def test_a_photo_overwritten_with_another_before_it_is_decoded_is_stored_once(library, photos, after_hashing, known):
    if known:
        library.index(photos)
    draw(photos, 1, seed=9)[0].rename(photos / "new.png")
    draw(photos, 1)
    after_hashing(photos / "new.png", lambda: shutil.copy(photos / "001.png", photos / "new.png"))
    outcome = library.index(photos)
    assert counts(outcome)["duplicates"] == 1 and outcome.new == (0 if known else 6)
    stored = library.photos.read(["content"])["content"].to_pylist()
    assert len(stored) == len(set(stored)) == 6
    assert found_paths(library) == {str(path) for path in photos.iterdir()}


@pytest.mark.parametrize(
    "reason", ["No such file or directory", "there is no such file", "Input/output error", "Permission denied",
               "it was changed while it was read"]
)  # fmt: skip
def test_what_earlier_versions_held_against_a_file_is_forgotten(library, photos, reason):
    (photos / "broken.jpg").write_bytes(jpeg()[:300])
    library.index(photos)
    wronged = photos / "000.png"
    status = wronged.stat()
    library.files.delete("file", [file_id(str(wronged))])
    row = {"file": file_id(str(wronged)), "path": os.fsencode(wronged), "content": 0, "reason": reason}
    row |= {"size": status.st_size, "modified": status.st_mtime_ns}
    library.files.append(pa.Table.from_pylist([row], FILES))
    assert str(wronged) not in found_paths(library)
    library.index(photos)
    assert str(wronged) in found_paths(library)
    assert counts(library.index(photos)) == {"unchanged": 7}
