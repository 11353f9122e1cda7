import pytest
from fastapi.testclient import TestClient

from smlstm.search import Library
from smlstm.web.app import create_app
from smlstm.web.settings import Settings
from tests.browser import browser, open_page  # noqa: F401 - fixtures
from tests.web.made import ADDRESS, learned_pair, save, scenes


@pytest.fixture(scope="session")
def pictures():
    return scenes()


@pytest.fixture(scope="session")
def pair(pictures):
    return learned_pair(pictures)


@pytest.fixture(scope="session")
def searching_pair(pictures):
    """A pair whose sm-LSTM has a map for each word, and a score of the wholes."""
    return learned_pair(pictures, modulation="paired", global_score=True, instance_score=True)


@pytest.fixture(scope="session")
def photos(pictures, tmp_path_factory):
    """A folder of pictures in two folders, with a file that is none."""
    folder = tmp_path_factory.mktemp("photos")
    save(pictures[:-5], folder)
    save(pictures[-5:], folder / "holiday")
    (folder / "broken.jpg").write_bytes(b"\xff\xd8\xff\xe0 no picture")
    return folder


@pytest.fixture(scope="session")
def library(pair, photos, tmp_path_factory):
    """A library that no test writes to."""
    found = Library(tmp_path_factory.mktemp("library"), model=pair, runtime="torch")
    found.index(photos)
    return found


@pytest.fixture(scope="session")
def searching_library(searching_pair, pictures, tmp_path_factory):
    """A few photos for that pair; no test writes to it."""
    found = Library(tmp_path_factory.mktemp("searching"), model=searching_pair, runtime="torch")
    found.index(save(pictures[:6], tmp_path_factory.mktemp("searched"))[0].parent)
    return found


@pytest.fixture(scope="session")
def client(library):
    with TestClient(create_app(library, Settings()), base_url=ADDRESS) as found:
        yield found


@pytest.fixture
def client_of(library):
    """A client of a server with other settings."""

    def make(**settings):
        return TestClient(create_app(library, Settings(**settings)), base_url=ADDRESS, raise_server_exceptions=False)

    return make
