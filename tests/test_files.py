import hashlib
import os

import pytest

from smlstm.files import fingerprint, printable, whole_file, write_whole


@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize("shared", [False, True])
def test_a_file_is_replaced_as_a_whole_and_nothing_else_is_left(tmp_path, durable, shared):
    path = tmp_path / "card.json"
    path.write_text("old")
    with whole_file(path, durable=durable, shared=shared) as file:
        file.write(b"ne")
        file.flush()
        assert path.read_text() == "old"
        file.write(b"w")
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


def test_a_failure_leaves_what_was_there(tmp_path):
    path = tmp_path / "card.json"
    path.write_text("old")
    with pytest.raises(KeyboardInterrupt), whole_file(path) as file:
        file.write(b"half")
        raise KeyboardInterrupt
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_what_a_killed_process_left_is_written_over(tmp_path):
    (tmp_path / "card.json.part").write_text("much longer than what comes")
    write_whole(tmp_path / "card.json", "né")
    assert (tmp_path / "card.json").read_bytes() == "né".encode()
    assert [path.name for path in tmp_path.iterdir()] == ["card.json"]


def test_the_error_of_a_missing_folder_is_the_first_one(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(NotADirectoryError) as error:
        write_whole(tmp_path / "file" / "card.json", b"")
    assert error.value.filename == str(tmp_path / "file" / "card.json.part")


def test_a_fingerprint_is_that_of_all_parts_joined(tmp_path):
    file = tmp_path / "large"
    file.write_bytes(os.urandom((1 << 20) + 7))
    joined = b"a\xc3\xa9\0" + file.read_bytes() + b"xyz"
    parts = ["aé", b"\0", file, memoryview(b"xyz")]
    assert fingerprint(parts) == hashlib.sha256(joined).hexdigest()
    assert fingerprint(iter(parts), 8) == hashlib.blake2b(joined, digest_size=8).hexdigest()


def test_a_name_that_is_no_unicode_is_printable():
    assert printable("caf\udce9.jpg") == r"caf\udce9.jpg"
    assert printable(os.fsdecode("é.jpg".encode())) == "é.jpg"
