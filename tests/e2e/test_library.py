"""A library through all that happens to a folder, by the commands that a user types.

The short run has a few dozen drawn photos. The long one takes real photos from the folder that `SMLSTM_PHOTOS` names,
the first 5,000 of them by default (`SMLSTM_PHOTOS_COUNT`), and the model in `SMLSTM_MODEL`, by default the shipped one.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from smlstm.search.manifest import read_manifest
from tests.command_line import smlstm_process
from tests.search.made import draw, make_pair

MOST_SECONDS = 3600


class Photos:
    """A folder of photos with a library beside it."""

    def __init__(self, folder: Path, options: list[str]) -> None:
        self.folder = folder
        self.options = ["--library", str(folder.parent / "library"), *options]

    def run(self, *arguments: object) -> subprocess.CompletedProcess[str]:
        return smlstm_process(*arguments, *self.options)

    def index(self) -> dict:
        found = self.run("index", self.folder, "--json")
        assert found.returncode == 0, found.stderr
        outcome = json.loads(found.stdout)
        names = ("new", "changed", "moved", "duplicates", "deleted", "unchanged", "extracted")
        return {name: outcome[name] for name in names} | {"skipped": len(outcome["skipped"])}

    def files(self) -> list[str]:
        listed = smlstm_process("library", "list", *self.options[:2])
        return listed.stdout.splitlines()

    def start_indexing(self) -> "subprocess.Popen[str]":
        code = "from smlstm.cli import main; main()"
        command = [sys.executable, "-c", code, "index", str(self.folder), *self.options]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def kill_after_some_commits(photos: Photos, commits: int) -> None:
    """Kill an indexer without warning once it has stored something, and before it is through."""
    process = photos.start_indexing()
    library = Path(photos.options[1])
    deadline = time.monotonic() + MOST_SECONDS
    while len(list(library.glob("photos-*/_versions/*.manifest"))) < commits:
        assert process.poll() is None, f"it ended before it could be killed: {process.communicate()}"
        assert time.monotonic() < deadline, "nothing was stored"
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL


def live_through(photos: Photos, count: int, sentence: str, different: bytes) -> None:
    """Kill, resume, add, change, move, delete, copy, break; `different` is a photo that is not among them."""
    kill_after_some_commits(photos, 2)
    resumed = photos.index()
    before = count - resumed["extracted"]
    assert before >= 16, f"{resumed}: what was stored before the kill was extracted again"
    assert resumed["skipped"] == 0 and len(photos.files()) == count
    assert photos.index() == dict.fromkeys(resumed, 0) | {"unchanged": count}

    names = sorted(path for path in photos.folder.iterdir() if path.is_file())
    (photos.folder / "added.png").write_bytes(different)
    changed = names[1].read_bytes()
    names[1].write_bytes(different[:-1] + bytes([different[-1] ^ 1]))  # another file that reads alike
    (photos.folder / "elsewhere").mkdir()
    names[2].rename(photos.folder / "elsewhere" / names[2].name)
    names[3].unlink()
    shutil.copy(names[4], photos.folder / "copy.jpg")
    (photos.folder / "broken.jpg").write_bytes(changed[: len(changed) // 2])
    (photos.folder / "empty.jpg").write_bytes(b"")
    outcome = photos.index()
    assert outcome == {
        "new": 1, "changed": 1, "moved": 1, "duplicates": 1, "deleted": 1,
        "unchanged": count - 3, "extracted": 2, "skipped": 2,
    }, outcome  # fmt: skip

    first = photos.run("search", sentence, "-k", 20)
    assert first.returncode == 0 and len(first.stdout.splitlines()) == min(20, count)
    second = photos.run("search", sentence, "-k", 20)
    assert second.stdout == first.stdout and "indexing" not in second.stderr
    assert photos.run("library", "check").stdout == "the library is whole\n"
    manifest = read_manifest(Path(photos.options[1]))
    assert manifest is not None and [each.path for each in manifest.folders] == [str(photos.folder.resolve())]


def test_a_library_lives_through_everything(tmp_path, model_folder):
    count = 96
    draw(tmp_path / "photos", count)
    different = draw(tmp_path / "other", 1, seed=1234)[0].read_bytes()
    photos = Photos(tmp_path / "photos", ["--model", str(model_folder)])
    live_through(photos, count, "a red circle above a blue square", different)


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory):
    return make_pair(tmp_path_factory.mktemp("model"))


@pytest.mark.slow
@pytest.mark.skipif("SMLSTM_PHOTOS" not in os.environ, reason="SMLSTM_PHOTOS names no folder of real photos")
def test_a_library_of_real_photos_lives_through_everything(tmp_path):
    count = int(os.environ.get("SMLSTM_PHOTOS_COUNT", "5000"))
    source = Path(os.environ["SMLSTM_PHOTOS"])
    names = sorted(path for path in source.rglob("*") if path.suffix.lower() in (".jpg", ".jpeg", ".png"))[:count]
    (tmp_path / "photos").mkdir()
    for number, path in enumerate(names):
        shutil.copy(path, tmp_path / "photos" / f"{number:06}{path.suffix.lower()}")
    different = draw(tmp_path / "other", 1, seed=1234)[0].read_bytes()
    model = os.environ.get("SMLSTM_MODEL")
    photos = Photos(tmp_path / "photos", ["--model", model] if model else [])
    live_through(photos, len(names), "a dog running on the beach", different)
