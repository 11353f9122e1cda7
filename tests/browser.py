"""A real browser for pages: Debian's Chromium, or the one that `SMLSTM_CHROMIUM` names."""

import os
import shutil

import pytest
from playwright.sync_api import expect, sync_playwright

CHROMIUM = os.environ.get("SMLSTM_CHROMIUM") or shutil.which("chromium")
ARGUMENTS = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
             "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage"]  # fmt: skip
MILLISECONDS = 30_000


@pytest.fixture(scope="module")
def browser():
    assert CHROMIUM, "there is no chromium: `make setup` installs Debian's, SMLSTM_CHROMIUM names another"
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield found
        found.close()


@pytest.fixture
def open_page(browser):
    """Opens a page that must write nothing to the console, save what a test expects."""
    contexts, told, expected = [], [], []

    def make(address, **options):
        contexts.append(browser.new_context(**options))
        page = contexts[-1].new_page()
        page.set_default_timeout(MILLISECONDS)
        page.on("console", lambda message: told.append(message.text))
        page.on("pageerror", lambda error: told.append(str(error)))
        page.goto(address)
        page.expected = expected
        return page

    expect.set_options(timeout=MILLISECONDS)
    yield make
    for context in contexts:
        context.close()
    unexpected = [text for text in told if not any(each in text for each in expected)]
    assert not unexpected, f"the page wrote to the console: {unexpected}"
