"""The page in a real browser."""

import os
import re
from base64 import b64encode
from pathlib import Path

import pytest
from examples.photos import collect
from playwright.sync_api import Page, expect

from smlstm.pair.shipped import FOLDER
from smlstm.search import Library
from smlstm.web.answers import Indexing
from smlstm.web.app import create_app
from smlstm.web.settings import Settings
from tests.web.made import COUNT, bomb, caption, name_of, save, serving, upload


@pytest.fixture(scope="module")
def address(library):
    with serving(create_app(library, Settings())) as found:
        yield found


def search(page: Page, sentence: str) -> None:
    page.get_by_label("Describe the photo").fill(sentence)
    page.get_by_role("button", name="Search", exact=True).click()
    expect(page.locator("#status")).to_contain_text(f"of {COUNT}")


def tiles(page: Page):
    return page.locator("#results button")


def test_search_open_step_through(address, open_page, pictures, library):
    page = open_page(address)
    expect(page.locator("#status")).to_have_text(f"{COUNT} photos, the newest first. Describe one to find it.")
    scene = next(each for each in pictures if library.search(caption(each), k=1)[0].path.name == name_of(each))
    search(page, caption(scene))
    best = tiles(page).first
    expect(best).to_contain_text("-".join(scene.objects[0].words))
    expect(best).to_have_accessible_name(re.compile(r"\.png, >?\d+ % match$"))
    assert best.locator("img").evaluate("image => image.decode().then(() => image.naturalWidth)") == 96
    best.click()
    viewer = page.get_by_role("dialog")
    expect(viewer.locator(".told")).to_contain_text("Step 1: reads ")
    expect(viewer.locator(".words")).to_have_text(caption(scene))
    expect(viewer.locator(".parts")).to_contain_text(", all of it from the steps.")
    drawn = "canvas => canvas.toDataURL()"
    first = viewer.locator("#map").evaluate(drawn)
    steps = viewer.locator(".steps button")
    expect(steps).to_have_count(3)
    steps.nth(1).click()
    expect(steps.nth(1)).to_have_attribute("aria-pressed", "true")
    expect(steps.nth(1)).to_have_accessible_name(re.compile(rf"^Step 2: {caption(scene)} [a-z ]+ >?\d+ %$"))
    expect(viewer.locator(".told")).to_contain_text(f"Step 2: reads “{caption(scene)}” (")
    second = viewer.locator("#map").evaluate(drawn)
    assert first != second
    viewer.get_by_label("Show the map").uncheck()
    assert viewer.locator("#map").evaluate("c => c.getContext('2d').getImageData(90, 90, 1, 1).data[3]") == 0
    viewer.get_by_role("button", name="Play").click()
    expect(viewer.locator(".told")).to_contain_text("Step 3: reads ")
    with page.expect_download() as download:
        viewer.get_by_role("link", name="Download the picture").click()
    assert download.value.suggested_filename == "explanation.png" and download.value.path().read_bytes()[1:4] == b"PNG"
    name = viewer.get_by_role("heading").inner_text()
    viewer.get_by_role("button", name="Next photo").click()
    expect(viewer.get_by_role("heading")).not_to_have_text(name)
    viewer.get_by_role("button", name="Similar photos").click()
    expect(page.locator("#similar")).to_contain_text("Photos like")
    page.go_back()
    expect(page.get_by_label("Describe the photo")).to_have_value(caption(scene))
    expect(tiles(page).first).to_contain_text("-".join(scene.objects[0].words))


def test_endless_scroll(address, open_page):
    page = open_page(address, viewport={"width": 400, "height": 500})
    expect(tiles(page)).to_have_count(24)
    page.locator("#more").scroll_into_view_if_needed()
    expect(tiles(page)).to_have_count(COUNT)
    expect(page.locator("#more")).to_be_hidden()


def test_words_that_the_model_does_not_know(address, open_page):
    page = open_page(address)
    search(page, "a purple zebra")
    expect(page.locator("#notice")).to_have_text("The model has not learned: zebra.")
    search(page, "a purple cirlce")
    expect(page.locator("#notice")).to_have_text("“cirlce” was read as “circle”.")


def test_filters(address, open_page):
    page = open_page(address)
    page.get_by_role("button", name="Filters").click()
    page.get_by_label("Path contains").fill("holiday")
    page.get_by_role("button", name="Apply").click()
    expect(tiles(page)).to_have_count(5)
    page.get_by_label("until").fill("1999-12-31")
    page.get_by_role("button", name="Apply").click()
    expect(page.locator("#status")).to_have_text("No photo fits. Fewer filters find more.")
    page.get_by_role("button", name="Clear").click()
    # Not by the number of tiles: more are loaded as soon as their place comes near, which a slow page may see early.
    expect(page.locator("#status")).to_have_text("30 photos, the newest first. Describe one to find it.")
    page.get_by_label("Folder").select_option(index=2)
    page.get_by_role("button", name="Apply").click()
    expect(tiles(page)).to_have_count(5)
    page.reload()  # what is asked for is in the address
    expect(tiles(page)).to_have_count(5)


DROP = """([data, name]) => {
  const bytes = Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0)), moved = new DataTransfer();
  moved.items.add(new File([bytes], name));
  document.body.dispatchEvent(new DragEvent("drop", { dataTransfer: moved, bubbles: true, cancelable: true }));
}"""


def drop(page, data, name):
    page.evaluate(DROP, [b64encode(data).decode(), name])


def test_a_dropped_photo_is_named_and_explained(address, open_page, pictures):
    page = open_page(address)
    drop(page, upload(pictures[0].picture)[1][1], "dropped.png")
    dialog = page.get_by_role("dialog")
    names = dialog.locator("#names button")
    expect(names.first).to_be_visible()
    dialog.get_by_label("Your own sentences").fill("\n".join([caption(scene) for scene in pictures[:4]] + ["a zebra"]))
    dialog.get_by_role("button", name="Name it").click()
    expect(names).to_have_count(5)
    expect(names.first).to_contain_text(caption(pictures[0]))
    expect(dialog.locator("#naming-status")).to_have_text(
        f"The best match is “{caption(pictures[0])}”. The model has not learned: zebra."
    )
    names.first.click()
    expect(dialog.locator(".told")).to_contain_text("Step 1: reads ")
    assert dialog.locator("canvas").first.evaluate("c => c.getContext('2d').getImageData(90, 90, 1, 1).data[3]") > 0
    dialog.get_by_role("button", name="Close").click()
    expect(dialog).to_be_hidden()


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    """Real photographs out of well-known packages, indexed by the shipped model."""
    folder = tmp_path_factory.mktemp("real")
    count = collect(folder / "photos")
    library = Library(folder / "library", model=FOLDER)
    library.index(folder / "photos")
    with serving(create_app(library, Settings())) as found:
        yield found, count, folder / "photos"


def test_the_shipped_model_on_real_photographs(real, open_page):
    address, count, photos = real
    page = open_page(address)
    page.get_by_label("Describe the photo").fill("a close up of a catlike zyzzyva")
    page.get_by_role("button", name="Search", exact=True).click()
    expect(page.locator("#status")).to_contain_text(f"of {count}")
    expect(page.locator("#notice")).to_contain_text("The model has not learned: catlike, zyzzyva.")
    expect(tiles(page).first).to_contain_text("chelsea.png")
    tiles(page).first.click()
    viewer = page.get_by_role("dialog")
    expect(viewer.locator(".told")).to_contain_text("Step 1: reads ")
    viewer.get_by_role("button", name="Step 2: ").click()
    expect(viewer.locator(".told")).to_contain_text("Step 2: reads ")
    expect(viewer.locator(".words button")).not_to_have_count(0)  # it can say where a word is
    viewer.get_by_role("button", name="catlike", exact=True).hover()
    expect(viewer.locator(".parts")).to_contain_text("from photo and sentence as wholes.")
    keep_screenshot(page, "shipped-opened.png")
    viewer.get_by_role("button", name="Close", exact=True).click()
    drop(page, (photos / "chelsea.png").read_bytes(), "dropped.png")
    names = page.get_by_role("dialog").locator("#names button")
    expect(names.first).to_contain_text(re.compile("cat|kitten"))
    keep_screenshot(page, "shipped-named.png")
    page.expected.append("422")
    drop(page, b"hello", "broken.jpg")
    expect(page.locator("#naming-status")).to_contain_text("Cannot read photo broken.jpg")


def keep_screenshot(page: Page, name: str) -> None:
    """For people to look at, where `SMLSTM_SCREENSHOTS` says."""
    if os.environ.get("SMLSTM_SCREENSHOTS"):
        page.screenshot(path=Path(os.environ["SMLSTM_SCREENSHOTS"]) / name)


def test_broken_uploads_are_told(address, open_page):
    page = open_page(address)
    page.expected.append("422")  # which the browser writes of every such answer
    drop(page, b"hello", "broken.jpg")
    status = page.locator("#naming-status")
    expect(status).to_contain_text("Cannot read photo broken.jpg: its content is not in a format")
    drop(page, bomb(60_000, 60_000), "bomb.png")
    expect(status).to_have_text("Cannot read photo bomb.png: 60000 x 60000 pixels are over the limit of 64 megapixels.")


def test_a_library_that_was_deleted_is_told(open_page, pair, pictures, tmp_path):
    save(pictures[:3], tmp_path / "photos")
    library = Library(tmp_path / "library", model=pair, runtime="torch")
    library.index(tmp_path / "photos")
    with serving(create_app(library, Settings())) as address:
        page = open_page(address)
        expect(tiles(page).first).to_be_visible()
        library.folder.rename(tmp_path / "away")
        page.expected.append("503")  # which the browser writes of every such answer
        page.get_by_label("Describe the photo").fill("a circle")
        page.get_by_role("button", name="Search", exact=True).click()
        expect(page.locator("#notice")).to_contain_text(f"The library in {library.folder} is not there any more")
        (tmp_path / "away").rename(library.folder)
        page.get_by_role("button", name="Search", exact=True).click()
        expect(page.locator("#status")).to_contain_text("of 3")
        page.close()  # before the server goes


@pytest.mark.parametrize("model", ["scenes", "shipped"])
def test_with_the_keyboard_alone(request, open_page, pictures, model):
    shipped = model == "shipped"
    page = open_page(request.getfixturevalue("real")[0] if shipped else request.getfixturevalue("address"))
    expect(page.get_by_label("Describe the photo")).to_be_focused()
    page.keyboard.type("a cup of coffee with a spoon on a table" if shipped else caption(pictures[1]))
    page.keyboard.press("Enter")
    expect(page.locator("#status")).to_contain_text("the best first")
    for _ in range(30):  # past the buttons, to the first photo
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.closest('#results li') !== null"):
            break
    name = tiles(page).first
    expect(name).to_be_focused()
    page.keyboard.press("ArrowRight")
    expect(tiles(page).nth(1)).to_be_focused()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Enter")
    viewer = page.get_by_role("dialog")
    expect(viewer.locator(".told")).to_contain_text("Step 1")
    first = viewer.get_by_role("heading").inner_text()
    page.keyboard.press("ArrowRight")
    expect(viewer.get_by_role("heading")).not_to_have_text(first)
    page.keyboard.press("ArrowLeft")
    expect(viewer.get_by_role("heading")).to_have_text(first)
    expect(viewer.locator(".told")).to_contain_text("Step 1")
    for _ in range(30):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.textContent.startsWith('Step 3')"):
            break
    page.keyboard.press("Enter")
    expect(viewer.locator(".told")).to_contain_text("Step 3")
    page.keyboard.press("Escape")
    expect(viewer).to_be_hidden()
    expect(tiles(page).first).to_be_focused()
    page.keyboard.press("/")
    expect(page.get_by_label("Describe the photo")).to_be_focused()


def test_the_library_tells_what_it_holds_and_skipped(address, open_page, photos):
    page = open_page(address)
    page.get_by_role("button", name="Library").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text(f"{COUNT} in {COUNT} files")
    expect(dialog.locator("#skipped li")).to_contain_text(f"{photos / 'broken.jpg'}: the JPEG data is damaged")


@pytest.mark.parametrize("model", ["scenes", "shipped"])
def test_an_empty_library_fills_while_one_looks_on(open_page, pair, pictures, tmp_path, model):
    folder = tmp_path / "photos"
    folder.mkdir()
    chosen = FOLDER if model == "shipped" else pair
    app = create_app(Library(tmp_path / "library", model=chosen, runtime="torch"), Settings(folders=(str(folder),)))
    with serving(app) as address:
        page = open_page(address)
        expect(page.locator("#status")).to_contain_text("The library has no photos yet. Start smlstm with a folder")
        save(pictures[:3], folder)
        page.get_by_role("button", name="Library").click()
        page.get_by_role("button", name="Look for new photos").click()
        expect(tiles(page)).to_have_count(3)
        expect(page.locator("#progress")).to_be_hidden()
        page.close()  # before the server goes


def test_how_far_indexing_is_and_why_it_ended(open_page, pair, tmp_path):
    app = create_app(Library(tmp_path / "library", model=pair, runtime="torch"))
    now = Indexing(running=True, done=1, total=3)
    app.state.service.indexing.state = lambda: now
    with serving(app) as address:
        page = open_page(address)
        expect(page.locator("#progress")).to_contain_text("Taking in photos: 1 of 3")
        expect(page.get_by_role("progressbar")).to_have_js_property("value", 1)
        expect(page.locator("#status")).to_contain_text("The first photos are being taken in")
        now = Indexing(running=False, done=2, total=3, failed="the disk is full")
        expect(page.locator("#progress")).to_contain_text("Indexing ended: the disk is full")
        expect(page.locator("#status")).to_contain_text("The library has no photos yet")
        page.close()


def test_a_server_with_a_token_asks_for_it(open_page, library):
    with serving(create_app(library, Settings(token="hush"))) as address:
        page = open_page(f"{address}/?token=hush")
        expect(tiles(page).first).to_be_visible()
        assert page.url == f"{address}/"
        other = open_page(address)
        other.expected.append("401")
        other.get_by_label(re.compile("The token")).fill("hush")
        other.get_by_role("button", name="Open").click()
        expect(tiles(other).first).to_be_visible()
        page.close()
        other.close()  # before the server goes


def test_who_goes_on_typing_while_a_photo_closes_stays_in_the_field(address, open_page):
    page = open_page(address)
    tiles(page).first.click()
    expect(page.get_by_role("dialog")).to_be_visible()
    page.evaluate(
        """() => new Promise((done) => {
            const dialog = document.getElementById("viewer");
            dialog.addEventListener("close", () => setTimeout(done));
            dialog.close();  // whose event comes after this function
            document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key: "/", bubbles: true }));
        })"""
    )
    expect(page.get_by_label("Describe the photo")).to_be_focused()


def go_without_library(page: Page, address: str) -> list:
    """The page before it knows what is in the library; the request that waits."""
    held = []

    def hold(route):
        held.append(route)

    page.route("**/api/v1/library", hold)
    with page.expect_request("**/api/v1/library"):
        page.goto(address)
    return held


def test_what_is_typed_before_the_first_answer_stays(address, open_page, pictures):
    page = open_page("about:blank")
    held = go_without_library(page, address)
    page.get_by_label("Describe the photo").fill(caption(pictures[0]))
    assert len(held) == 1
    held[0].continue_()
    expect(page.locator("#status")).to_contain_text("the newest first")
    expect(page.get_by_label("Describe the photo")).to_have_value(caption(pictures[0]))


def test_a_folder_that_the_address_names_outlives_a_quick_question(address, open_page, pictures):
    page = open_page("about:blank")
    page.expected.append("422")  # no folder is called so
    held = go_without_library(page, f"{address}/?folder=nowhere")
    page.get_by_label("Describe the photo").fill(caption(pictures[0]))
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("folder=nowhere"))
    held[0].continue_()
    expect(page.get_by_text("Folders.0")).to_be_visible()


@pytest.mark.parametrize("width", [320, 390, 768, 1400])
def test_nothing_sticks_out_at_any_width(address, open_page, pictures, width):
    page = open_page(address, viewport={"width": width, "height": 700})
    search(page, caption(pictures[0]))
    sticks_out = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
    assert not page.evaluate(sticks_out)
    tiles(page).first.click()
    expect(page.locator("#viewer .told")).to_contain_text("Step 1")
    assert not page.locator("#viewer").evaluate("box => box.scrollWidth > box.clientWidth")


def test_every_control_has_a_name_and_pictures_have_texts(address, open_page, pictures):
    page = open_page(address)
    search(page, caption(pictures[0]))
    tiles(page).first.click()
    expect(page.locator("#viewer .told")).to_contain_text("Step 1")
    nameless = page.evaluate(
        """() => [...document.querySelectorAll("button, input, select, textarea, a, progress")].filter((each) =>
          !each.ariaLabel && !each.textContent.trim() && !each.labels?.length).map((each) => each.outerHTML)"""
    )
    assert nameless == []
    assert page.evaluate("[...document.images].every((image) => image.hasAttribute('alt'))")
    assert page.evaluate("document.documentElement.lang") == "en"
