"""Damage of every kind: what is whole stays, what is not comes back with the next indexing."""

import shutil

import pytest

from smlstm.search import Library


def data_files(table) -> list:
    return sorted((table.path / "data").iterdir())


def damage(path, at: float) -> None:
    content = bytearray(path.read_bytes())
    place = int(at * len(content))
    content[place : place + 64] = bytes(byte ^ 0x5A for byte in content[place : place + 64])
    path.write_bytes(content)


def recovers(library, photos, pair, most_extracted: int) -> None:
    again = Library(library.folder, model=pair, runtime="torch")
    health = again.repair()
    assert health
    assert not again.check()
    outcome = again.index(photos)
    assert outcome.extracted <= most_extracted
    assert not again.check()
    assert {match.path for match in again.search("a red circle", k=50)} == set(photos.iterdir())


@pytest.fixture
def indexed(library, photos):
    library.index(photos)
    return library


def test_a_whole_library_is_whole(indexed):
    assert not indexed.check() and indexed.repair().problems == []


def test_changed_bytes_of_a_photo_are_noticed_by_its_checksum(indexed, photos, pair):
    damage(data_files(indexed.photos)[0], 0.4)
    problems = Library(indexed.folder, model=pair).check().problems
    assert any("damaged" in problem or "cannot be read" in problem for problem in problems)
    recovers(indexed, photos, pair, 6)


@pytest.mark.parametrize("which", ["photos", "files"])
def test_a_lost_data_file(indexed, photos, pair, which):
    data_files(getattr(indexed, which))[0].unlink()
    recovers(indexed, photos, pair, 6 if which == "photos" else 0)


@pytest.mark.parametrize("which", ["photos", "files"])
def test_a_damaged_version_file(indexed, photos, pair, which):
    for path in (getattr(indexed, which).path / "_versions").iterdir():
        path.write_bytes(b"nonsense")
    recovers(indexed, photos, pair, 6 if which == "photos" else 0)


def test_a_lost_table_of_photos_leaves_files_that_are_seen_again(indexed, photos, pair):
    shutil.rmtree(indexed.photos.path)
    again = Library(indexed.folder, model=pair, runtime="torch")
    assert "6 files have no stored photo" in again.check().problems[0]
    assert again.index(photos).extracted == 6 and not again.check()


def test_only_the_damaged_part_is_seen_again(indexed, photos, pair):
    from tests.search.made import draw  # noqa: PLC0415

    draw(photos / "more", 4, seed=6)
    indexed.index(photos)
    newest = max(data_files(indexed.photos), key=lambda path: path.stat().st_mtime_ns)
    newest.unlink()
    again = Library(indexed.folder, model=pair, runtime="torch")
    again.repair()
    assert again.index(photos).extracted == 4


def test_a_first_commit_that_never_was_is_no_obstacle(library, photos):
    (library.photos.path / "data").mkdir(parents=True)
    (library.photos.path / "data" / "left-over.lance").write_bytes(b"half")
    assert library.index(photos).extracted == 6 and not library.check()
