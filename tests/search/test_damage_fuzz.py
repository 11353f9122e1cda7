"""Random damage to any file of a library: one sentence, and `repair` and `index` give the same answers as before.

`SMLSTM_FUZZ=3000 pytest tests/search/test_damage_fuzz.py` tries more of them.
"""

import os
import random
import shutil
from pathlib import Path

import pytest

from smlstm.errors import SmlstmError
from smlstm.search import Filter, Library
from smlstm.search.browsing import newest
from tests.search.made import draw, jpeg

COUNT = int(os.environ.get("SMLSTM_FUZZ", "60"))
KINDS = ("flip", "flip", "flip", "byte", "cut", "zeros", "empty", "lost", "swapped", "folder")


@pytest.fixture(scope="module")
def whole(tmp_path_factory, pair) -> Library:
    """A library with several versions, deleted rows, copies, a skipped file, dates and an index of vectors."""
    root = tmp_path_factory.mktemp("whole")
    photos = root / "photos"
    library = Library(root / "library", model=pair, runtime="torch", exact_below=8)
    draw(photos, 6)
    library.index(photos, exclude=["private"])
    draw(photos / "more", 3, seed=6)
    draw(photos / "private", 1, seed=9)
    (photos / "dated.jpg").write_bytes(jpeg("2021:05:01 10:00:00"))
    (photos / "text.jpg").write_text("hello")
    shutil.copy(photos / "000.png", photos / "copy.png")
    library.index()
    (photos / "001.png").unlink()
    library.index()
    return library


def opened(folder: Path, whole: Library) -> Library:
    library = Library(folder, model=whole.pair, runtime="torch", exact_below=whole.exact_below)
    library.__dict__["photo_reader"] = whole.photo_reader  # one CNN for all
    return library


def answers(library: Library) -> list:
    """All that can be asked, scores rounded: photos are looked at in other batches the second time."""
    found = [library.search("a red circle", k=20), library.search("two yellow stars", k=3, minus=["a dog"])]
    listed, count = newest(library.snapshot(), Filter(), 0, 50)
    matches = [*found[0], *found[1], *sorted(listed, key=lambda match: match.path)]  # of one moment in any order
    told = [
        (match.path, round(match.probability or 0, 2), match.width, match.height, match.taken, match.copies)
        for match in matches
    ]
    return [told, count, library.entries(), library.manifest.folders]


def damage(rng: random.Random, library: Path) -> str:
    """Damage a file in some way; returns what was done."""
    files = sorted(path for path in library.rglob("*") if path.is_file())
    path, kind = rng.choice(files), rng.choice(KINDS)
    data = bytearray(path.read_bytes())
    at = rng.randrange(max(1, len(data)))
    match kind:
        case "flip" if data:
            data[at] ^= 1 << rng.randrange(8)
        case "byte" if data:
            data[at] = rng.choice((0, 32, 127, 128, 255))
        case "cut":
            del data[at:]
        case "zeros":
            length = min(rng.randrange(1, 64), len(data) - at)
            data[at : at + length] = bytes(length)
        case "swapped":
            other = rng.choice(files)
            content = other.read_bytes()
            other.write_bytes(data)
            data = bytearray(content)
        case "lost" | "folder":
            path.unlink()
        case _:
            data = bytearray()
    if kind == "folder":
        path.mkdir()
    elif kind != "lost":
        path.write_bytes(data)
    return f"{kind} at {at} of {path.relative_to(library)}"


def try_out(rng: random.Random, library: Library, photos: Path) -> None:
    """What someone does who does not know of the damage: it works, or ends with a sentence."""
    for use in rng.sample([lambda: answers(library), lambda: library.index(photos), library.check, library.stats], 2):
        try:
            use()
        except SmlstmError as error:
            assert str(error).count("\n") == 0


@pytest.mark.slow
def test_whatever_is_damaged_is_told_and_mended(whole, tmp_path):
    rng = random.Random(int(os.environ.get("SMLSTM_FUZZ_SEED", "16")))
    photos = whole.folder.parent / "photos"
    expected = answers(whole)
    for number in range(COUNT):
        folder = tmp_path / "library"
        shutil.copytree(whole.folder, folder)
        done = [damage(rng, folder) for _ in range(rng.choice((1, 1, 1, 2, 4)))]
        told = f"round {number}: {done}"
        (tmp_path / "under_way").write_text(told)  # which tells of it should the process be aborted
        try_out(rng, opened(folder, whole), photos)
        library = opened(folder, whole)
        library.repair()
        assert not library.check().problems, told
        library.index(photos, **({} if library.manifest.folders else {"exclude": ["private"]}))
        assert not library.check().problems, told
        assert answers(library) == expected, told
        assert answers(opened(folder, whole)) == expected, told
        shutil.rmtree(folder)
