import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

from smlstm.data import open_dataset
from smlstm.errors import InputError
from tests.data.made_features import fill
from tests.data.test_layouts import rows
from tests.permissions import bounded_by_permissions


def keys(folder: Path) -> list[str]:
    return [record.key for record in open_dataset(folder).records]


def touch(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    return folder


def test_a_folder_of_photos_has_no_captions(tmp_path: Path) -> None:
    touch(tmp_path, "b.JPG", "sub/deep/a.webp", ".hidden/c.jpg", "notes.txt", "d.pef")
    dataset = open_dataset(tmp_path)
    assert rows(dataset) == [("b.JPG", "train", ()), ("d.pef", "train", ()), ("sub/deep/a.webp", "train", ())]
    assert dataset.missing == ()
    assert dataset.notes == ("a folder of photos: there are no captions",)


def test_links_to_folders_are_followed_but_not_round_in_a_circle(tmp_path: Path) -> None:
    photos, elsewhere = touch(tmp_path / "photos", "sub/a.jpg"), touch(tmp_path / "elsewhere", "b.jpg")
    (photos / "sub" / "loop").symlink_to(photos)
    for name in ("again", "z-again"):
        (photos / name).symlink_to(photos / "sub")
    (photos / "link").symlink_to(elsewhere)
    (elsewhere / "back").symlink_to(elsewhere)
    assert keys(photos) == ["link/b.jpg", "sub/a.jpg"]


def test_files_without_a_suffix_are_photos_by_their_content(tmp_path: Path) -> None:
    Image.new("RGB", (4, 4)).save(tmp_path / "scan", "PNG")
    (tmp_path / "README").write_text("hello")
    os.mkfifo(tmp_path / "pipe")
    assert keys(tmp_path) == ["scan"]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("metadata.csv", "id,title\n1,x\n"),
        ("store.skipped.jsonl", '{"key": "a.jpg", "path": "a.jpg", "reason": "it is empty"}\n'),
        ("captions.txt", "My photos of 2019.\nThe first ones are from March.\n"),
        ("results.csv", "a|b\n"),
    ],
)
def test_a_table_without_captions_does_not_make_photos_unusable(tmp_path: Path, name: str, content: str) -> None:
    touch(tmp_path, "a.jpg")
    (tmp_path / name).write_text(content)
    dataset = open_dataset(tmp_path)
    assert rows(dataset) == [("a.jpg", "train", ())]
    assert dataset.notes[1].startswith(f"{name} was left out: ")
    (tmp_path / "a.jpg").unlink()
    with pytest.raises(InputError, match='has no "'):
        open_dataset(tmp_path)


def test_feature_stores_among_photos_are_left_out(tmp_path: Path) -> None:
    touch(tmp_path, "a.jpg", "shop/b.jpg")
    fill(tmp_path / "store", [["a"]])
    touch(tmp_path / "store", "thumbnail.jpg")
    (tmp_path / "shop" / "store.json").write_text('{"shop": "not one of ours"}')
    assert keys(tmp_path) == ["a.jpg", "shop/b.jpg"]
    assert keys(tmp_path / "shop") == ["b.jpg"]


SCAN = "import sys; from smlstm.data import open_dataset; print(*open_dataset(sys.argv[1]).notes, sep='\\n')"


def test_a_subfolder_that_may_not_be_read_is_noted_and_the_rest_goes_on(tmp_path: Path) -> None:
    touch(tmp_path, "a.jpg", "closed/b.jpg", "open/c.jpg")
    (tmp_path / "closed").chmod(0)
    done = subprocess.run(
        [*bounded_by_permissions(), sys.executable, "-c", SCAN, str(tmp_path)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    (tmp_path / "closed").chmod(0o700)
    assert done.returncode == 0, done.stderr
    assert f"{tmp_path / 'closed'} cannot be read and was left out: Permission denied" in done.stdout
    shutil.rmtree(tmp_path / "closed")
    assert keys(tmp_path) == ["a.jpg", "open/c.jpg"]
