"""Where each word is, on the page of a model that can say it."""

import re

import pytest
from playwright.sync_api import expect

from smlstm.web.app import create_app
from smlstm.web.settings import Settings
from tests.web.made import caption, name_of, serving

DRAWN = "canvas => canvas.toDataURL()"


@pytest.fixture(scope="module")
def address(searching_library):
    with serving(create_app(searching_library, Settings())) as found:
        yield found


@pytest.fixture
def opened(address, open_page, pictures):
    """A photo opened, found by a sentence."""

    def make(sentence=None, **options):
        page = open_page(address, **options)
        page.get_by_label("Describe the photo").fill(sentence or f"{caption(pictures[0])} on grass")
        page.keyboard.press("Enter")
        page.get_by_role("button", name=re.compile(name_of(pictures[0]))).click()
        viewer = page.get_by_role("dialog")
        expect(viewer.locator(".told")).to_contain_text("Step 1: reads ")
        return viewer

    return make


def test_pointing_at_a_word_shows_where_it_is(opened, pictures):
    viewer = opened()
    shape, canvas, told = pictures[0].objects[0].shape, viewer.locator("#map"), viewer.locator(".told")
    words = viewer.locator(".words button")
    expect(words).to_have_text([pictures[0].objects[0].colour, shape, "grass"])
    expect(viewer.locator(".words .quiet")).to_have_text(["a", "on"])
    step = canvas.evaluate(DRAWN)
    words.nth(1).hover()
    expect(told).to_have_text(re.compile(f"^“{shape}”: (at the .* of the photo|everywhere alike)\\.$"))
    expect(viewer.locator(".steps [aria-pressed=true]")).to_have_count(0)
    word = canvas.evaluate(DRAWN)
    viewer.locator(".words .quiet").first.hover()
    expect(told).to_contain_text("Step 1: reads ")
    assert canvas.evaluate(DRAWN) == step != word
    expect(viewer.locator(".parts")).to_contain_text("from photo and sentence as wholes.")


def test_the_keyboard_reaches_every_word_that_has_a_map_and_only_those(opened):
    viewer = opened()
    words, told = viewer.locator(".words button"), viewer.locator(".told")
    words.first.focus()
    for number in range(3):
        expect(words.nth(number)).to_be_focused()
        expect(told).to_contain_text(f"“{words.nth(number).inner_text()}”: ")
        viewer.page.keyboard.press("Tab")
    expect(told).to_contain_text("Step 1: reads ")


def test_a_tap_shows_a_word_until_another_thing_is_tapped(opened):
    viewer = opened(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    words, told = viewer.locator(".words button"), viewer.locator(".told")
    words.nth(1).tap()
    expect(told).to_contain_text(f"“{words.nth(1).inner_text()}”: ")
    words.nth(0).tap()
    expect(told).to_contain_text(f"“{words.nth(0).inner_text()}”: ")
    viewer.locator(".steps button").nth(1).tap()
    expect(told).to_contain_text("Step 2: reads ")


def test_a_step_frames_its_phrase(opened, pictures):
    viewer = opened()
    steps = viewer.locator(".steps button")
    for number in range(3):
        steps.nth(number).click()
        phrase = steps.nth(number).locator("b").inner_text()
        assert phrase in (caption(pictures[0]), "grass")
        expect(viewer.locator(".phrase.top")).to_have_text(phrase)


@pytest.mark.parametrize("width", [320, 768])
def test_long_sentences_and_long_words_stay_inside(opened, width):
    sentence = f"a {'very ' * 10}long {'x' * 60} on grass with a green star"
    viewer = opened(sentence, viewport={"width": width, "height": 700})
    assert not viewer.evaluate("box => box.scrollWidth > box.clientWidth")
