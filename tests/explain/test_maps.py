import numpy as np
import pytest
from PIL import Image

from smlstm.explain.maps import colours, half_area, legend, multiply, overlay, resize_map

PEAK = np.array([[0, 0, 0], [0, 0, 8], [0, 0, 1]], np.float32)


def test_a_map_lies_where_its_region_does_in_any_proportion():
    stretched = resize_map(PEAK, (90, 30))
    assert stretched.shape == (30, 90)
    assert stretched.min() >= 0
    assert np.unravel_index(stretched.argmax(), stretched.shape)[1] >= 60
    assert 10 <= np.unravel_index(stretched.argmax(), stretched.shape)[0] < 20


def test_an_even_map_stays_even():
    assert np.allclose(resize_map(np.full((7, 7), 0.25, np.float32), (100, 61)), 0.25, atol=1e-6)


def test_multiplication_keeps_the_photo_at_the_peak_and_darkens_the_rest():
    photo = Image.new("RGB", (90, 90), (200, 100, 50))
    shown = np.asarray(multiply(photo, PEAK))
    assert shown[0, 0].tolist() == [0, 0, 0]
    assert shown.reshape(-1, 3).max(0).tolist() == [200, 100, 50]
    assert np.array_equal(np.asarray(multiply(photo, np.full((3, 3), 0.1, np.float32))), np.asarray(photo))


def test_colours_only_get_lighter():
    lightness = colours(np.linspace(0, 1, 50, dtype=np.float32)) @ np.array([0.2126, 0.7152, 0.0722])
    assert (np.diff(lightness) > 0).all()
    assert colours(np.array([2.0], np.float32)).tolist() == colours(np.array([1.0], np.float32)).tolist()
    assert np.asarray(legend((64, 4)).convert("L"))[0, 0] < np.asarray(legend((64, 4)).convert("L"))[0, -1]


def test_an_overlay_keeps_the_photos_details():
    halves = Image.fromarray(np.repeat(np.array([[0] * 40 + [255] * 40], np.uint8), 80, 0)).convert("RGB")
    pixels = np.asarray(overlay(halves, np.ones((4, 4), np.float32), 2.0)).astype(int)
    assert np.ptp(pixels[0, :40], axis=0).max() == 0  # an even map has no outline
    assert (pixels[0, 60] - pixels[0, 20] > 100).all()


def test_the_outline_holds_half_of_the_saliency():
    saliency = resize_map(PEAK, (60, 60))
    area = half_area(saliency)
    assert saliency[area].sum() == pytest.approx(saliency.sum() / 2, rel=0.05)
    pixels = np.asarray(overlay(Image.new("RGB", (60, 60), "grey"), PEAK, 9.0)).reshape(-1, 3).tolist()
    assert [255, 255, 255] in pixels and [0, 0, 0] in pixels
