"""What all attacks share: drawn photos whose right answers are known, small models, a tiny training run.

Made when first needed, below the campaign's `base` folder; written beside its place and renamed, since who makes it may
be killed.
"""

import hashlib
import io
import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path

from PIL import Image

from smlstm.data.scenes import compose
from smlstm.search import Library
from tests.campaign.answers import Answer, ask
from tests.search.made import make_pair
from tests.training.conftest import write_scenes

PHOTOS = 160
FORMATS = ("PNG", "JPEG", "JPEG", "WEBP", "BMP", "TIFF", "GIF", "progressive")
_BROKEN = (b"", b"no picture", b"\xff\xd8\xff\xe0 no picture", b"\x89PNG\r\n\x1a\n\x00\x00")


def _once(base: Path, name: str, make: Callable[[Path], object]) -> Path:
    target = base / name
    if not target.exists():
        part = base / f".{name}.part"
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        make(part)
        part.rename(target)
    return target


def model(base: Path) -> Path:
    """A pair with random weights."""
    return _once(base, "model", make_pair)


def pool(base: Path) -> Path:
    """Photos in several formats and folders, some copies, some files that are no photos."""
    return _once(base, "pool", _draw_pool)


def _draw_pool(folder: Path) -> None:
    rng = random.Random(0)
    for number, scene in enumerate(compose(11, PHOTOS, size=64)):
        style = FORMATS[number % len(FORMATS)]
        below = folder / rng.choice(("", "beach", "beach/2024", "ünïcode 📷"))
        below.mkdir(parents=True, exist_ok=True)
        (below / f"{number:03}.{_suffix(style)}").write_bytes(encoded(scene.picture, style))
    for number, path in enumerate(sorted(folder.rglob("*.*"))[:6]):
        shutil.copy(path, folder / f"copy-{number}{path.suffix}")
    for number, data in enumerate(_BROKEN):
        (folder / f"broken-{number}.jpg").write_bytes(data)


def encoded(picture: Image.Image, style: str) -> bytes:
    """A picture as a file of some format."""
    file = io.BytesIO()
    if style == "progressive":
        picture.save(file, "JPEG", progressive=True)
    else:
        picture.convert("P" if style == "GIF" else "RGB").save(file, style)
    return file.getvalue()


def _suffix(style: str) -> str:
    return {"JPEG": "jpg", "progressive": "jpeg", "TIFF": "tif"}.get(style, style.lower())


def oracle(base: Path) -> dict[str, Answer | None]:
    """The right answer for every photo of the pool by its content; None for files that are no photos."""
    folder = _once(base, "oracle", lambda part: _make_oracle(base, part))
    content = json.loads((folder / "answers.json").read_text(encoding="utf-8"))
    return {key: value and Answer(tuple(value[0]), *value[1:]) for key, value in content.items()}


def _make_oracle(base: Path, part: Path) -> None:
    photos, library = pool(base), Library(part / "library", model=model(base), runtime="torch")
    library.index(photos)
    found = ask(library)
    answers = {digest(path): found.get(str(path)) for path in photos.rglob("*") if path.is_file()}
    healthy = sum(answer is not None for answer in answers.values())
    assert healthy == PHOTOS, f"the undisturbed library has {healthy} photos, not {PHOTOS}"
    (part / "answers.json").write_text(json.dumps({key: value and list(value) for key, value in answers.items()}))


def digest(path: Path) -> str:
    """A file's content."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


RECIPE = """
name = "tiny"
[[data]]
dataset = "{scenes}/captions.csv"
features = "{scenes}/features"
[vocabulary]
minimum_count = 1
[stage.mnlm]
epochs = 2
batch_size = 16
log_steps = 4
checkpoint_seconds = 0
model = {{ embedding_width = 16, sentence_width = 16, max_words = 16, dropout = 0.2 }}
[stage.smlstm]
start_from = "mnlm"
epochs = 3
batch_size = 16
log_steps = 4
checkpoint_seconds = 0
region_dropout = 0.3
word_dropout = 0.1
model = {{ embedding_width = 16, sentence_width = 16, word_width = 16, attention_width = 12, similarity_width = 16, \
hidden_width = 12, max_words = 16, dropout = 0.2 }}
"""


def recipe(base: Path) -> Path:
    """A configuration of two tiny stages, beside its scenes."""
    scenes = _once(base, "scenes", write_scenes)
    path = base / "tiny.toml"
    path.write_text(RECIPE.format(scenes=scenes), encoding="utf-8")
    return path


def shipped_photos(base: Path) -> Path:
    """A few photos for the shipped model, larger than the others."""

    def draw(folder: Path) -> None:
        for number, scene in enumerate(compose(5, 48, size=160)):
            scene.picture.save(folder / f"{number:02}.png")

    return _once(base, "shipped-photos", draw)
