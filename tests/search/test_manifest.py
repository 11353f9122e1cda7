"""`library.json` is read whole or found damaged, whoever writes it at the same time."""

from pathlib import Path

import pytest

from smlstm.search.manifest import COPY, NAME, Folder, Manifest, read_manifest, write_manifest


def test_a_library_that_is_begun_while_it_is_read_is_not_damaged(tmp_path, monkeypatch):
    begun = Manifest(folders=[Folder("/photos", ())])
    read_bytes, looked = Path.read_bytes, []

    def begin_behind_the_look(path):
        if not looked:
            looked.append(path)
            write_manifest(tmp_path, begun)
            raise FileNotFoundError(path)
        return read_bytes(path)

    monkeypatch.setattr(Path, "read_bytes", begin_behind_the_look)
    assert read_manifest(tmp_path) == begun and looked == [tmp_path / NAME]


def test_without_its_manifest_a_library_is_damaged(tmp_path):
    write_manifest(tmp_path, Manifest())
    (tmp_path / NAME).unlink()
    assert (tmp_path / COPY).exists()
    with pytest.raises(Exception, match="it is missing"):
        read_manifest(tmp_path)


def test_where_there_is_no_library_there_is_none(tmp_path):
    assert read_manifest(tmp_path) is None and read_manifest(tmp_path / "nowhere") is None
