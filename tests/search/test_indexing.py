import json
import os
import shutil
from pathlib import Path

import pytest

from smlstm.data.lock import WriterLock
from smlstm.errors import InputError, SmlstmError
from smlstm.pair import load_pair
from smlstm.search import Library
from tests.command_line import smlstm_process
from tests.permissions import bounded_by_permissions
from tests.search.made import draw, jpeg, make_pair


def counts(outcome) -> dict[str, int]:
    names = ("new", "changed", "moved", "duplicates", "returned", "deleted", "unchanged", "extracted")
    found = {name: getattr(outcome, name) for name in names} | {
        "skipped": len(outcome.skipped), "unreachable": len(outcome.unreachable)
    }  # fmt: skip
    return {name: count for name, count in found.items() if count}


def found_paths(library: Library, k: int = 100) -> set[str]:
    return {str(path) for match in library.search("a red circle", k=k) for path in (match.path, *match.copies)}


def test_a_second_run_has_nothing_to_do_and_loads_no_cnn(library, photos, tmp_path, pair):
    assert counts(library.index(photos)) == {"new": 6, "extracted": 6}
    again = Library(tmp_path / "library", model=pair, runtime="torch")
    assert counts(again.index(photos)) == {"unchanged": 6}
    assert "extractor" not in again.photo_reader.__dict__
    assert found_paths(again) == {str(path) for path in photos.iterdir()}
    assert "extractor" not in again.photo_reader.__dict__


def test_new_changed_moved_deleted_and_copied_files_are_told_apart(library, photos):
    library.index(photos)
    draw(photos / "more", 1, seed=9)
    shutil.copy(photos / "000.png", photos / "more" / "copy.png")
    (photos / "001.png").rename(photos / "more" / "moved.png")
    (photos / "002.png").unlink()
    draw(photos / "other", 1, seed=8)[0].replace(photos / "003.png")
    (photos / "other").rmdir()
    outcome = library.index(photos)
    assert counts(outcome) == {
        "new": 1, "changed": 1, "moved": 1, "duplicates": 1, "deleted": 1, "unchanged": 3 - 1 + 1, "extracted": 2
    }  # fmt: skip
    assert found_paths(library) == {str(path) for path in photos.rglob("*.png")}
    copies = [match for match in library.search("a red circle", k=100) if match.copies]
    assert [(match.path.name, match.copies[0].name) for match in copies] == [("000.png", "copy.png")]


def test_a_touched_file_is_read_but_not_extracted(library, photos):
    library.index(photos)
    os.utime(photos / "000.png", (1, 1))
    assert counts(library.index(photos)) == {"unchanged": 6}
    assert counts(library.index(photos)) == {"unchanged": 6}


def test_photos_that_come_back_are_known(library, photos, tmp_path):
    library.index(photos)
    (photos / "000.png").rename(tmp_path / "away.png")
    assert counts(library.index(photos)) == {"deleted": 1, "unchanged": 5}
    (tmp_path / "away.png").rename(photos / "back.png")
    assert counts(library.index(photos)) == {"returned": 1, "unchanged": 5}


def test_broken_files_are_named_kept_apart_and_tried_again_only_when_asked(library, photos):
    (photos / "broken.jpg").write_bytes(jpeg()[:300])
    (photos / "copy of broken.jpg").write_bytes(jpeg()[:300])
    (photos / "text.png").write_text("hello")
    outcome = library.index(photos)
    assert counts(outcome) == {"new": 6, "extracted": 6, "skipped": 3}
    reasons = {Path(each.path).name: each.reason for each in outcome.skipped}
    assert "damaged or incomplete" in reasons["broken.jpg"] and reasons["copy of broken.jpg"] == reasons["broken.jpg"]
    assert counts(library.index(photos)) == {"unchanged": 9}
    assert counts(library.index(photos, retry=True)) == {"unchanged": 6, "skipped": 3}
    (photos / "broken.jpg").write_bytes(jpeg())
    assert counts(library.index(photos)) == {"changed": 1, "unchanged": 8, "extracted": 1}
    assert str(photos / "broken.jpg") in found_paths(library)


def test_several_folders_are_kept_apart(library, photos, tmp_path):
    draw(tmp_path / "second", 2, seed=5)
    library.index(photos)
    library.index(tmp_path / "second")
    (photos / "000.png").unlink()
    (tmp_path / "second" / "000.png").unlink()
    assert counts(library.index(photos)) == {"deleted": 1, "unchanged": 5}
    assert counts(library.index()) == {"deleted": 1, "unchanged": 6}


def test_exclusions_are_remembered_and_take_out_what_was_in(library, photos):
    draw(photos / "private", 2, seed=3)
    (photos / "a.gif").write_bytes(jpeg())
    assert counts(library.index(photos))["new"] == 9
    assert counts(library.index(photos, exclude=["*.gif", "private"])) == {"deleted": 3, "unchanged": 6}
    assert counts(library.index()) == {"unchanged": 6}
    with pytest.raises(InputError, match="is excluded from the library"):
        library.index(photos / "private")
    assert counts(library.index(photos / "private", exclude=[])) == {"returned": 2}
    assert counts(library.index()) == {"unchanged": 8}
    assert counts(library.index(photos, exclude=[])) == {"returned": 1, "unchanged": 8}


def test_exclusions_of_the_nearest_folder_count(library, photos):
    draw(photos / "inner", 1, seed=3)
    (photos / "inner" / "a.gif").write_bytes(jpeg())
    (photos / "b.gif").write_bytes(jpeg(colour="blue"))
    library.index(photos)
    assert counts(library.index(photos / "inner", exclude=["*.gif"])) == {"deleted": 1, "unchanged": 1}
    assert counts(library.index()) == {"unchanged": 8}


def test_a_folder_that_is_away_keeps_its_photos(library, photos, tmp_path):
    library.index(photos)
    photos.rename(tmp_path / "unplugged")
    outcome = library.index()
    assert counts(outcome) == {} and "is not there" in outcome.notes[0]
    (tmp_path / "unplugged").rename(photos)
    assert counts(library.index()) == {"unchanged": 6}


def test_a_folder_that_cannot_be_read_keeps_its_photos(library, photos, model):
    draw(photos / "closed", 2, seed=3)
    library.index(photos)
    (photos / "closed").chmod(0)
    options = ("--library", library.folder, "--model", model, "--json")
    try:
        found = smlstm_process("index", *options, before=bounded_by_permissions())
    finally:
        (photos / "closed").chmod(0o755)
    outcome = json.loads(found.stdout)
    assert (outcome["unchanged"], outcome["deleted"]) == (6, 0) and "cannot be read" in outcome["notes"][0]
    assert str(photos / "closed" / "000.png") in found_paths(library)


def test_names_need_not_be_unicode(library, tmp_path):
    name = os.fsdecode(b"caf\xe9 \xff's.png")
    (draw(tmp_path / "photos", 1)[0]).rename(tmp_path / "photos" / name)
    library.index(tmp_path / "photos")
    assert counts(library.index(tmp_path / "photos")) == {"unchanged": 1}
    assert library.search("a red circle")[0].path.name == name
    (tmp_path / "photos" / name).unlink()
    assert counts(library.index(tmp_path / "photos")) == {"deleted": 1}


def test_a_second_indexer_is_refused_while_searching_goes_on(library, photos):
    library.index(photos)
    lock = WriterLock(library.folder / "lock")
    try:
        with pytest.raises(SmlstmError, match="is being written by this process"):
            library.index(photos)
        assert len(library.search("a red circle")) == 6
    finally:
        lock.release()


def test_another_model_sees_all_photos_anew_and_the_first_is_not_forgotten(library, photos, tmp_path):
    library.index(photos)
    other = Library(library.folder, model=load_pair(make_pair(tmp_path / "other", seed=1)), runtime="torch")
    assert len(other.search("a red circle")) == 0
    assert counts(other.index(photos)) == {"extracted": 6}
    assert len(other.search("a red circle")) == 6
    assert counts(library.index(photos)) == {"unchanged": 6}


def test_what_is_told_on_the_way_adds_up(library, photos):
    (photos / "text.png").write_text("hello")
    seen = []
    library.index(photos, watch=lambda outcome: seen.append((outcome.done, outcome.total)))
    assert seen[:7] == [(number, 7) for number in range(1, 8)]


def test_many_small_commits_are_joined(library, photos):
    for number in range(18):
        (photos / f"{number}.jpg").write_bytes(jpeg(size=(60 + number, 40)))
        library.index(photos)
    assert len(library.files.dataset.get_fragments()) < 5 and len(library.photos.dataset.get_fragments()) < 5
    assert found_paths(library) == {str(path) for path in photos.iterdir()}


@pytest.mark.parametrize("name", ["missing", "000.png"])
def test_a_folder_must_be_one(library, photos, name):
    with pytest.raises(InputError, match="there is no folder|is a file"):
        library.index(photos / name)


def test_lancedb_opens_the_folder_as_a_database(library, photos):
    lancedb = pytest.importorskip("lancedb")
    library.index(photos)
    database = lancedb.connect(str(library.folder))
    assert database.open_table("files").count_rows() == 6
    assert database.open_table(library.photos.path.stem).count_rows() == 6
