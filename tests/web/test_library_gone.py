"""A library that is deleted, moved or replaced while it is served."""

import shutil

import pytest
from fastapi.testclient import TestClient

from smlstm.search import Library
from smlstm.search.location import LibraryGone
from smlstm.web.app import create_app
from smlstm.web.settings import Settings
from tests.web.made import ADDRESS, caption, save


@pytest.fixture
def photos(pictures, tmp_path):
    save(pictures[:4], tmp_path / "photos")
    return tmp_path / "photos"


@pytest.fixture
def library(pair, photos, tmp_path):
    found = Library(tmp_path / "library", model=pair, runtime="torch")
    found.index(photos)
    return found


@pytest.fixture
def client(library):
    with TestClient(create_app(library), base_url=ADDRESS) as found:
        yield found


def asked(client, pictures):
    """Everything that shows photos."""
    return [
        client.get("/api/v1/library"),
        client.get("/api/v1/photos"),
        client.get("/api/v1/library/skipped"),
        client.post("/api/v1/search", json={"sentence": caption(pictures[0])}),
    ]


def is_told(answer, library):
    error = answer.json()["error"]
    assert answer.status_code == 503 and error["code"] == "gone" and "retry-after" in answer.headers
    return f"the library in {library.folder} is not there any more" in error["message"]


def test_a_library_that_was_deleted_is_not_shown_as_empty(client, library, pictures):
    assert [answer.status_code for answer in asked(client, pictures)] == [200] * 4
    shutil.rmtree(library.folder)
    for _ in range(2):  # and not only once
        assert all(is_told(answer, library) for answer in asked(client, pictures))
    assert client.get("/api/v1/health").status_code == 200
    assert "smlstm_photos 0.0" in client.get("/metrics").text


def test_a_part_that_was_deleted_is_told(client, library, pictures):
    asked(client, pictures)
    shutil.rmtree(library.photos.path)  # as another model's prune would
    assert all(is_told(answer, library) for answer in asked(client, pictures))


def test_a_library_that_comes_back_is_served_again(client, library, pictures, tmp_path):
    before = [answer.json() for answer in asked(client, pictures)]
    library.folder.rename(tmp_path / "away")
    assert all(is_told(answer, library) for answer in asked(client, pictures))
    (tmp_path / "away").rename(library.folder)
    assert [answer.json() for answer in asked(client, pictures)] == before


def test_a_library_that_is_made_anew_is_served(client, library, pictures, pair, photos):
    asked(client, pictures)
    shutil.rmtree(library.folder)
    assert all(is_told(answer, library) for answer in asked(client, pictures))
    save(pictures[4:6], photos)
    Library(library.folder, model=pair, runtime="torch").index(photos)
    assert client.get("/api/v1/library").json()["photos"] == 6
    assert client.get("/api/v1/photos").json()["total"] == 6


def test_a_server_of_named_folders_can_make_it_anew_and_another_says_that_it_cannot(library, photos, pictures):
    with TestClient(create_app(library, Settings(folders=(str(photos),))), base_url=ADDRESS) as client:
        asked(client, pictures)
        shutil.rmtree(library.folder)
        assert client.post("/api/v1/library/index", json={}).status_code == 202
        client.app.state.service.indexing._thread.join(60)
        assert client.get("/api/v1/library").json()["photos"] == 4
    with TestClient(create_app(library), base_url=ADDRESS) as client:
        asked(client, pictures)
        shutil.rmtree(library.folder)
        client.post("/api/v1/library/index", json={})
        client.app.state.service.indexing._thread.join(60)
        assert "is not there any more" in client.app.state.service.indexing.state().failed
        assert not library.folder.exists()


def test_a_library_that_never_was_is_empty(pair, tmp_path, pictures):
    library = Library(tmp_path / "none", model=pair, runtime="torch")
    with TestClient(create_app(library), base_url=ADDRESS) as client:
        assert [answer.status_code for answer in asked(client, pictures)] == [200] * 4
        assert client.get("/api/v1/library").json()["photos"] == 0


def test_python_is_told_too(library, pictures):
    library.search(caption(pictures[0]))
    shutil.rmtree(library.folder)
    with pytest.raises(LibraryGone, match="smlstm index FOLDER"):
        library.search(caption(pictures[0]))
