"""Damage of one kind each: told in a sentence, and mended with as little lost as can be."""

import shutil

import pytest

from smlstm.search import Library
from smlstm.search.damage import DamagedLibrary, told_as_damage
from smlstm.search.manifest import Folder
from smlstm.search.seals import NAME as SEALS
from tests.search.made import draw
from tests.search.test_maintenance import data_files


@pytest.fixture
def indexed(library, photos):
    library.index(photos, exclude=["private"])
    draw(photos / "more", 4, seed=6)
    library.index()
    return library


def again(library: Library) -> Library:
    return Library(library.folder, model=library.pair, runtime="torch")


def newest_manifest(table):
    return min((table.path / "_versions").glob("*.manifest"))


def set_byte(path, place: int, value: int) -> None:
    content = bytearray(path.read_bytes())
    content[place] = value
    path.write_bytes(content)


def test_no_byte_of_a_version_can_be_changed_unnoticed_or_reach_lance(indexed, photos):
    """Some of these would abort the process."""
    path = newest_manifest(indexed.files)
    whole = path.read_bytes()
    for place in range(0, len(whole), 7):
        set_byte(path, place, 32 if whole[place] != 32 else 33)
        for use in (lambda: again(indexed).search("a dog"), lambda: again(indexed).index(photos)):
            with pytest.raises(DamagedLibrary, match=r"is damaged .*smlstm library repair"):
                use()
        path.write_bytes(whole)
    assert not again(indexed).check()


def test_a_lost_newest_version_is_no_older_library(indexed):
    newest_manifest(indexed.photos).unlink()
    with pytest.raises(DamagedLibrary, match="newest version is missing"):
        again(indexed).search("a dog")
    again(indexed).repair()
    assert again(indexed).index().extracted == 0, "all photos were there, whatever the versions say"
    assert not again(indexed).check() and len(again(indexed).search("a dog", k=20)) == 10


def test_rows_around_a_changed_byte_are_kept(indexed):
    row = bytes(indexed.photos.read(["regions"])["regions"][0].as_py())
    (path,) = (path for path in data_files(indexed.photos) if row in path.read_bytes())
    set_byte(path, path.read_bytes().find(row), row[0] ^ 1)
    assert again(indexed).check()
    told = again(indexed).repair()
    assert "written anew with the 9 rows" in " ".join(told.kept)
    assert again(indexed).index().extracted == 1 and not again(indexed).check()


def test_folders_and_exclusions_come_back_from_the_copy(indexed, photos):
    expected = [Folder(str(photos), ("private",))]
    for harm in (lambda path: path.unlink(), lambda path: path.write_text("{"), lambda path: set_byte(path, 60, 33)):
        harm(indexed.folder / "library.json")
        with pytest.raises(DamagedLibrary):  # and does not write a new one without the exclusions
            again(indexed).index(photos)
        assert again(indexed).repair()
        assert again(indexed).manifest.folders == expected and not again(indexed).check()


def test_folders_that_cannot_be_known_are_asked_for(indexed, photos):
    for name in ("library.json", "library.json.copy"):
        (indexed.folder / name).write_text("{")
    told = again(indexed).repair()
    assert f"its files lie in {photos}" in told.kept[-1] and "smlstm index FOLDER" in told.kept[-1]
    assert not again(indexed).check() and len(again(indexed).search("a dog", k=20)) == 10


def test_a_library_without_checksums_gets_them(indexed, photos):
    for path in indexed.folder.glob(f"*/{SEALS}*"):
        path.unlink()
    assert not again(indexed).check()
    again(indexed).index(photos)
    set_byte(newest_manifest(indexed.files), 137, 33)
    with pytest.raises(DamagedLibrary):
        again(indexed).entries()


def test_without_checksums_too_a_damaged_version_is_mended(indexed, photos):
    shutil.rmtree(indexed.files.path / "_transactions")
    for path in indexed.files.path.glob(f"{SEALS}*"):
        path.unlink()
    newest_manifest(indexed.files).write_bytes(b"")
    with pytest.raises(DamagedLibrary):
        again(indexed).search("a dog")
    assert again(indexed).repair()
    assert again(indexed).index(photos).extracted == 0 and not again(indexed).check()


def test_damaged_checksums_are_taken_from_their_copy(indexed):
    for harm in (lambda path: path.unlink(), lambda path: path.write_text("{")):
        harm(indexed.files.path / SEALS)
        set_byte(newest_manifest(indexed.files), 0, newest_manifest(indexed.files).read_bytes()[0] ^ 1)
        with pytest.raises(DamagedLibrary):
            again(indexed).entries()
        assert len(again(indexed).repair().problems) == 2
        again(indexed).index()
        assert not again(indexed).check() and len(again(indexed).entries()) == 10


def test_a_damaged_index_of_vectors_is_dropped_and_built_again(tmp_path, pair, photos):
    def opened() -> Library:
        return Library(tmp_path / "library", model=pair, runtime="torch", exact_below=5)

    opened().index(photos)
    data = data_files(opened().photos)
    (index,) = (opened().photos.path / "_indices").glob("*/index.idx")
    set_byte(index, 50, index.read_bytes()[50] ^ 1)
    with pytest.raises(DamagedLibrary):
        opened().search("a dog")
    assert "all 6 rows are kept" in " ".join(opened().repair().kept)
    assert data_files(opened().photos) == data, "nothing was written anew"
    assert not opened().check() and len(opened().search("a dog")) == 6
    opened().index()
    assert opened().photos.pinned().indexed("embedding_idx") == 6


def test_a_library_that_is_open_goes_on_after_the_repair(indexed, photos):
    before = [match.path for match in indexed.search("a dog", k=20)]
    path = newest_manifest(indexed.files)
    path.unlink()
    with pytest.raises(DamagedLibrary):
        indexed.search("a dog")
    again(indexed).repair()
    again(indexed).index(photos)
    assert [match.path for match in indexed.search("a dog", k=20)] == before


def test_a_repair_that_was_killed_between_two_names_loses_nothing(indexed):
    indexed.photos.path.rename(indexed.photos.path.with_name(f".{indexed.photos.path.name}.damaged"))
    again(indexed).repair()
    assert again(indexed).index().extracted == 0 and not again(indexed).check()


def test_a_full_disk_is_no_damage(tmp_path):
    with pytest.raises(OSError, match="No space left"), told_as_damage(tmp_path):
        raise ValueError("LanceError(IO): write: No space left on device (os error 28)")


def test_a_panic_of_rust_is_damage_and_an_interruption_is_not(tmp_path):
    panic = type("PanicException", (BaseException,), {})
    with pytest.raises(DamagedLibrary, match="range end index 4"), told_as_damage(tmp_path):
        raise panic("range end index 4 out of range")
    with pytest.raises(KeyboardInterrupt), told_as_damage(tmp_path):
        raise KeyboardInterrupt
