"""A library that is damaged while it is served: told as a problem, and served again once it is mended."""

import shutil

from fastapi.testclient import TestClient

from smlstm.search import Library
from smlstm.web.app import create_app
from smlstm.web.settings import Settings
from tests.web.made import ADDRESS


def test_damage_is_a_problem_answer_and_the_server_goes_on(library, pair, tmp_path):
    folder = tmp_path / "library"
    shutil.copytree(library.folder, folder)
    served = Library(folder, model=pair, runtime="torch")
    ask = {"sentence": "a red circle"}
    with TestClient(create_app(served, Settings()), base_url=ADDRESS, raise_server_exceptions=False) as client:
        before = client.post("/api/v1/search", json=ask)
        assert before.status_code == 200
        min(served.files.path.glob("_versions/*.manifest")).unlink()
        answer = client.post("/api/v1/search", json=ask)
        assert answer.status_code == 500 and answer.json()["error"]["code"] == "damaged"
        assert "smlstm library repair" in answer.json()["error"]["message"] and "Traceback" not in answer.text
        assert client.get("/api/v1/health").status_code == 200
        other = Library(folder, model=pair, runtime="torch")
        other.repair()
        other.index()
        after = client.post("/api/v1/search", json=ask)
        assert after.status_code == 200 and after.json()["photos"] == before.json()["photos"]
