"""The shipped model scores a photo nearly alike at any size and quality; benchmarks/robustness.py has the Sum."""

from pathlib import Path

import pytest
import torch
from benchmarks.robustness import save
from examples.photos import PHOTOS, SENTENCES, collect

from smlstm.matching.batch import ImageFeatures
from smlstm.pair import load_model
from smlstm.search.naming import score_features

VARIANTS = {"200 px": (200, 95), "2000 px": (2000, 95), "quality 30": (None, 30), "quality 50": (None, 50)}


@pytest.fixture(scope="module")
def photos(tmp_path_factory) -> list[Path]:
    folder = tmp_path_factory.mktemp("photos")
    assert collect(folder) >= 12
    small = {Path(name).name for names in PHOTOS.values() for name in names} - {"grass.png", "brick.png", "moon.png"}
    return sorted(path for path in folder.iterdir() if path.name in small)


@pytest.fixture(scope="module")
def scored(photos, tmp_path_factory):
    pair = load_model()
    reader = pair.photo_reader()
    found = {}
    for name, (side, quality) in {"as they are": (None, 95), **VARIANTS}.items():
        folder = tmp_path_factory.mktemp("variant")
        for photo in photos:
            save(photo, folder / f"{photo.stem}.jpg", side, quality)
        saved = [folder / f"{photo.stem}.jpg" for photo in photos]
        found[name] = score_features(pair, ImageFeatures.from_numpy(*reader.read(saved)), SENTENCES)
    return found


@pytest.mark.parametrize("variant", VARIANTS)
def test_scores_hardly_move(scored, variant):
    plain, other = scored["as they are"], scored[variant]
    moved = (other - plain).abs().mean()
    assert moved < 0.2 * plain.std(), f"scores move by {moved:.3f}, they differ by {plain.std():.3f} among pairs"


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_same_photos_are_found(scored, variant):
    plain, other = scored["as they are"].argmax(0), scored[variant].argmax(0)
    assert int((plain == other).sum()) >= len(SENTENCES) - 1


def test_other_photos_are_other_scores(scored):
    assert torch.unique(scored["as they are"].argmax(0)).numel() >= 6, "each sentence finds a photo of its own"
