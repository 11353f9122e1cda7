"""Views of photos: what each shows, and that it shows the same every time."""

from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from smlstm.vision.backbones import load_backbone
from smlstm.vision.backbones.base import below_of
from smlstm.vision.views import AREAS, ASPECTS, Part, View


@pytest.fixture(scope="module")
def backbone():
    return load_backbone("efficientnet-lite0", grid=2)


@pytest.fixture(scope="module")
def photo() -> Image.Image:
    """Red grows to the right, green downwards: a pixel says where it was."""
    down, across = np.mgrid[0:600, 0:800]
    return Image.fromarray(np.stack([across * 255 / 799, down * 255 / 599, 0 * down], -1).round().astype(np.uint8))


def test_parts_are_drawn_from_seed_and_key_within_their_bounds():
    parts = [View(augmented=seed).part(f"{key}.jpg") for seed in range(4) for key in range(100)]
    assert len(set(parts)) == 400
    assert parts[:100] == [View(augmented=0).part(f"{key}.jpg") for key in range(100)]
    sizes = np.array([(part.right - part.left, part.bottom - part.top) for part in parts])
    areas, shapes = sizes.prod(1), sizes[:, 0] / sizes[:, 1]
    assert areas.min() > AREAS[0] * ASPECTS[0] and areas.max() <= AREAS[1] and 0.7 < areas.mean() < 0.8
    assert shapes.min() > ASPECTS[0] - 1e-9 and shapes.max() < ASPECTS[1] + 1e-9
    assert all(0 <= part.left < part.right <= 1 + 1e-9 and 0 <= part.top < part.bottom <= 1 + 1e-9 for part in parts)
    assert 0.4 < np.mean([part.mirrored for part in parts]) < 0.6


def test_pixels_are_those_of_the_part(backbone, photo):
    for key in ("a", "b", "c", "d", "e", "f"):
        view = View(augmented=5)
        pixels = replace(backbone, view=view).preprocess(photo, key).astype(float) / 255
        columns, rows = view.part(key).places(64)
        assert np.abs(pixels[:, :, 0] - columns[None]).max() < 0.08  # a JPEG of low quality may be so far off
        assert np.abs(pixels[:, :, 1] - rows[:, None]).max() < 0.08
        assert (replace(backbone, view=view).preprocess(photo, key) == pixels * 255).all()


def test_a_mirror_and_a_plain_view_are_what_they_were(backbone, photo):
    plain = backbone.preprocess(photo, "a")
    assert (replace(backbone, view=View(mirrored=True)).preprocess(photo, "a") == plain[:, ::-1]).all()
    assert View().part("a") == Part() and View().text == ""


def test_photos_differ_in_size_and_quality(photo):
    shown = [View(augmented=1).show(photo, str(key)) for key in range(60)]
    longer = np.array([max(each.size) for each in shown])
    assert longer.min() >= 150 and 10 < (longer > 500).sum() < 40


@pytest.mark.parametrize("view", [View(), View(mirrored=True), View(augmented=0), View(augmented=17)])
def test_a_description_names_the_view_at_its_end(backbone, view):
    lower = replace(backbone, view=view).lower_part(3)
    for made in (replace(backbone, view=view), lower):
        assert View.split(made.preprocessing) == (replace(made, view=View()).preprocessing, view)
    assert below_of(lower.preprocessing) == 3
    assert below_of(backbone.preprocessing) is None
