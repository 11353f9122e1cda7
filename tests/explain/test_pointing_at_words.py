"""A page without scripts shows where a word is: by the mouse, by the keyboard, by a tap."""

import pytest
from playwright.sync_api import expect

from smlstm.explain import write


@pytest.fixture
def address(searching, tmp_path):
    write(searching, tmp_path / "page.html")
    return (tmp_path / "page.html").as_uri()


def covers(photo, shown):
    """Whether what is shown lies over the photo."""
    return shown.bounding_box() == pytest.approx(photo.bounding_box(), abs=1)


def test_pointing_at_a_word_lays_its_map_over_the_photo(address, open_page):
    page = open_page(address)
    pair = page.locator("section").first
    photo = pair.locator("figure.where > img")
    dog, beach = (pair.locator(".word").filter(has_text=word) for word in ("dog", "beach"))
    expect(pair.locator(".word")).to_have_text(["red", "dog", "runs", "beach"])
    expect(pair.locator(".sentence .quiet")).to_have_text(["a", "on", "the"])
    expect(dog.locator("img")).to_be_hidden()
    dog.hover()
    expect(dog.locator("img")).to_be_visible()
    assert covers(photo, dog.locator("img"))
    beach.hover()
    expect(dog.locator("img")).to_be_hidden()
    expect(beach.locator("img")).to_be_visible()
    page.get_by_role("heading", level=1).hover()
    expect(beach.locator("img")).to_be_hidden()


def test_the_tab_key_goes_from_word_to_word(address, open_page):
    page = open_page(address)
    words = page.locator("section").first.locator(".word")
    for number in range(2):
        page.keyboard.press("Tab")
        expect(words.nth(number)).to_be_focused()
        expect(words.nth(number).locator("img")).to_be_visible()
    expect(words.nth(0).locator("img")).to_be_hidden()


def test_a_tap_on_a_telephone_shows_it_too_and_nothing_sticks_out(address, open_page):
    page = open_page(address, viewport={"width": 360, "height": 640}, has_touch=True, is_mobile=True)
    word = page.locator("section").first.locator(".word").first
    word.tap()
    expect(word.locator("img")).to_be_visible()
    assert not page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth")
