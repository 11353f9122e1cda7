import io
import os
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from PIL import Image

from smlstm.model import Ensemble
from smlstm.search import Library
from smlstm.web.app import create_app
from smlstm.web.photo_scope import Served
from smlstm.web.rankings import SHORTLISTS
from smlstm.web.settings import Settings
from tests.web.made import ADDRESS, COUNT, caption, name_of, save, upload


def ask(client, path="/search", **content):
    answer = client.post(f"/api/v1{path}", json=content)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_a_sentence_finds_its_picture_with_a_probability(client, pictures):
    found = [ask(client, sentence=caption(scene)) for scene in pictures]
    right = [answer["photos"][0]["name"] == name_of(scene) for answer, scene in zip(found, pictures, strict=True)]
    assert sum(right) >= COUNT - 2
    shares = [photo["probability"] for photo in found[0]["photos"]]
    assert shares == sorted(shares, reverse=True) and shares[0] > 0.5 and shares[-1] < 0.1
    assert found[0]["searched"] == COUNT and found[0]["unknown_words"] == [] and found[0]["calibrated"]


def test_unknown_words_are_told(client):
    assert ask(client, sentence="a red zebra")["unknown_words"] == ["zebra"]


def test_misspelt_words_are_read_as_what_was_meant_and_it_is_told(client):
    typed, meant = (ask(client, sentence=f"a {word} on grass") for word in ("cirlce", "circle"))
    assert typed["read_as"] == {"cirlce": "circle"} and meant["read_as"] == {} and not typed["unknown_words"]
    assert typed["photos"] == meant["photos"]


def test_results_go_on_without_a_photo_twice_or_never(client, monkeypatch):
    monkeypatch.setattr("smlstm.web.rankings.SHORTLISTS", (8, 16, 64))
    found, more = [], True
    while more:
        answer = ask(client, sentence="a red circle on grass", offset=len(found), limit=5)
        found += [photo["id"] for photo in answer["photos"]]
        more = answer["more"]
    assert len(found) == len(set(found)) == COUNT
    first = ask(client, sentence="a red circle on grass", limit=8)["photos"]
    assert [photo["id"] for photo in first] == found[:8]
    assert SHORTLISTS[0] == 100


def test_who_begins_in_the_middle_sees_what_others_see_there(client, client_of, monkeypatch):
    monkeypatch.setattr("smlstm.web.rankings.SHORTLISTS", (8, 16, 24, 64))
    question = {"sentence": "a green square on grass"}
    pages = [ask(client, **question, offset=offset, limit=5)["photos"] for offset in (0, 5, 10, 15, 20)]
    with client_of() as other:
        assert ask(other, **question, offset=20, limit=5)["photos"] == pages[-1]


def test_minimum_cuts_what_matches_less(client, pictures):
    everything = ask(client, sentence=caption(pictures[0]), limit=100)["photos"]
    some = ask(client, sentence=caption(pictures[0]), minimum=0.5, limit=100)["photos"]
    assert some == [photo for photo in everything if photo["probability"] >= 0.5] and some


def test_what_should_not_fit_moves_back(client, pictures):
    wanted = caption(pictures[0])
    assert ask(client, sentence="a circle on grass", minus=[wanted])["photos"][0]["name"] != name_of(pictures[0])


def test_similar_photos_begin_with_the_photo_itself(client, pictures):
    photo = ask(client, sentence=caption(pictures[3]))["photos"][0]
    found = ask(client, similar=photo["id"], limit=3)["photos"]
    assert found[0]["id"] == photo["id"] and found[0]["similarity"] > 0.999 and found[0]["probability"] is None


def test_filters_by_folder_path_and_date(client, library, pictures):
    newest = client.get("/api/v1/photos", params={"limit": 100}).json()
    assert newest["total"] == COUNT and len(newest["photos"]) == COUNT and not newest["more"]
    assert len(ask(client, sentence="a circle", paths=["*/holiday/*"], limit=100)["photos"]) == 5
    assert client.get("/api/v1/photos", params={"path": "holiday"}).json()["total"] == 5
    assert ask(client, sentence="a circle", until="1999")["photos"] == []
    outer, inner = client.get("/api/v1/library").json()["folders"]
    assert outer["files"] == COUNT and inner["files"] == 5 and inner["path"] == f"{outer['path']}/holiday"
    assert len(ask(client, sentence="a circle", folders=[outer["id"]], limit=100)["photos"]) == COUNT
    assert len(ask(client, sentence="a circle", folders=[inner["id"]], limit=100)["photos"]) == 5
    refused = client.post("/api/v1/search", json={"sentence": "a circle", "folders": ["0" * 16]})
    assert refused.status_code == 422 and "is no folder of the library" in refused.json()["error"]["message"]


def test_the_newest_come_first(pair, pictures, tmp_path):
    paths = save(pictures[:4], tmp_path / "photos")
    for age, path in enumerate(paths):
        os.utime(path, (1_000_000_000 - 1000 * age,) * 2)
    library = Library(tmp_path / "library", model=pair, runtime="torch")
    library.index(tmp_path / "photos")
    with TestClient(create_app(library), base_url=ADDRESS) as client:
        names = [photo["name"] for photo in client.get("/api/v1/photos").json()["photos"]]
        assert names == [path.name for path in paths]
        assert [photo["name"] for photo in client.get("/api/v1/photos?offset=1&limit=2").json()["photos"]] == names[1:3]


def test_several_questions_at_once(client, pictures):
    asked = [{"sentence": caption(scene), "limit": 1} for scene in pictures[:3]]
    assert ask(client, "/search/batch", questions=asked)["answers"] == [ask(client, **each) for each in asked]


def test_photos_come_as_jpeg_of_their_own_shape(client, pictures):
    photo = ask(client, sentence=caption(pictures[0]))["photos"][0]
    assert client.get(f"/api/v1/photos/{photo['id']}").json()["path"] == photo["path"]
    answer = client.get(f"/api/v1/photos/{photo['id']}/thumbnail")
    assert answer.headers["content-type"] == "image/jpeg" and "immutable" in answer.headers["cache-control"]
    shown = Image.open(io.BytesIO(answer.content))
    assert shown.size == (96, 96)
    middle = tuple(
        int((a + b) / 2) for a, b in zip(pictures[0].objects[0].box[:2], pictures[0].objects[0].box[2:], strict=True)
    )
    told, real = shown.getpixel(middle), Image.open(photo["path"]).convert("RGB").getpixel(middle)
    assert max(abs(a - b) for a, b in zip(told, real, strict=True)) < 40
    assert client.get(f"/api/v1/photos/{photo['id']}/picture").content == answer.content


def test_score_and_explain_agree_with_search(client, pictures):
    photo = ask(client, sentence=caption(pictures[0]))["photos"][0]
    (score,) = ask(client, "/score", photos=[photo["id"]], sentences=[caption(pictures[0])])["scores"]
    assert score["probability"] == pytest.approx(photo["probability"], abs=1e-3)
    (seen,) = ask(client, "/explain", photos=[photo["id"]], sentences=[caption(pictures[0])])["explanations"]
    assert seen["words"] == caption(pictures[0]).split() and len(seen["steps"]) == 3
    assert seen["probability"] == pytest.approx(photo["probability"], abs=1e-3)
    for step in seen["steps"]:
        assert sum(step["words"]) == pytest.approx(1, abs=1e-3)
        assert sum(map(sum, step["regions"])) == pytest.approx(1, abs=1e-3)
        assert step["told"].startswith("Step ")
        assert step["phrase"]["text"] == caption(pictures[0]) and step["phrase"]["share"] == pytest.approx(1, abs=1e-3)
    assert seen["word_maps"] is None and seen["function_words"] == [True, False, False]
    assert seen["parts"]["whole"] == 0 and seen["parts"]["steps"] == pytest.approx(seen["score"])


def test_where_each_word_is_and_the_parts_of_the_score_are_told(searching_library, pictures):
    sentence = f"{caption(pictures[0])} on grass"
    with TestClient(create_app(searching_library), base_url=ADDRESS) as client:
        photo = ask(client, sentence=sentence)["photos"][0]["id"]
        (seen,) = ask(client, "/explain", photos=[photo], sentences=[sentence])["explanations"]
    assert [found is None for found in seen["word_maps"]] == [True, False, False, True, False] == seen["function_words"]
    for found in filter(None, seen["word_maps"]):
        assert sum(map(sum, found["regions"])) == pytest.approx(1, abs=1e-3) and found["place"] in found["told"]
    parts = seen["parts"]
    assert parts["whole"] != 0 and parts["steps"] + parts["whole"] == pytest.approx(seen["score"])
    assert parts["told"].startswith("The score is ")


def test_an_explanation_can_be_kept_as_a_picture(client, pictures):
    photo = ask(client, sentence=caption(pictures[0]))["photos"][0]
    answer = client.get(f"/api/v1/photos/{photo['id']}/explanation.png", params={"sentence": caption(pictures[0])})
    assert answer.headers["content-type"] == "image/png" and "attachment" in answer.headers["content-disposition"]
    assert Image.open(io.BytesIO(answer.content)).width > 600


def test_photos_of_the_library_are_named(client, pictures):
    sentences = [caption(scene) for scene in pictures]
    photos = [ask(client, sentence=text)["photos"][0]["id"] for text in sentences[:2]]
    found = ask(client, "/annotate", photos=photos, sentences=sentences, k=3, explain=True)["photos"]
    assert [each["photo"] for each in found] == photos
    assert found[0]["sentences"][0]["sentence"] == sentences[0] and len(found[0]["sentences"]) == 3
    assert found[0]["sentences"][0]["explanation"]["sentence"] == sentences[0]


def test_not_everything_is_explained_at_once(client, pictures):
    sentences = [caption(scene) for scene in pictures]
    photos = [ask(client, sentence=text)["photos"][0]["id"] for text in sentences[:2]] * 4
    asked = {"photos": photos, "sentences": sentences, "k": 30, "explain": True}
    answer = client.post("/api/v1/annotate", json=asked)
    assert answer.status_code == 422 and "at most 128 pairs" in answer.json()["error"]["message"]


def test_photos_that_are_sent_are_named_and_scored(client, pictures):
    sentences = [caption(scene) for scene in pictures[:8]]
    files = [upload(pictures[0].picture, "first.png"), upload(pictures[1].picture)]
    answer = client.post("/api/v1/uploads/annotate", files=files, data={"sentences": sentences, "k": 2}).json()
    assert [each["photo"] for each in answer["photos"]] == ["first.png", "sent.png"]
    assert [each["sentences"][0]["sentence"] for each in answer["photos"]] == sentences[:2]
    stored = ask(client, sentence=sentences[0])["photos"][0]["probability"]
    scores = client.post("/api/v1/uploads/score", files=files, data={"sentences": sentences[:1]}).json()["scores"]
    assert scores[0]["probability"] == pytest.approx(stored, abs=0.02) and scores[1]["probability"] < 0.5


def test_without_sentences_the_shipped_phrases_count(client, pictures):
    answer = client.post("/api/v1/uploads/annotate", files=[upload(pictures[0].picture)])
    assert answer.status_code == 200 and len(answer.json()["photos"][0]["sentences"]) == 5


def test_the_state_of_the_library(client, library, photos):
    state = client.get("/api/v1/library").json()
    assert (state["photos"], state["files"], state["skipped"]) == (COUNT, COUNT, 1)
    assert state["model"] == {"kind": "sm-lstm", "attends": True, "calibrated": True, "words": state["model"]["words"]}
    assert state["library"] == str(library.folder) and not state["indexing"]["running"]
    skipped = client.get("/api/v1/library/skipped").json()
    assert skipped["total"] == 1 and skipped["files"][0]["path"] == str(photos / "broken.jpg")
    assert "damaged" in skipped["files"][0]["reason"]


def test_indexing_goes_on_behind_the_page(pair, pictures, tmp_path):
    folder = tmp_path / "photos"
    save(pictures[:3], folder)
    library = Library(tmp_path / "library", model=pair, runtime="torch")
    settings = Settings(folders=(str(folder),))
    with TestClient(create_app(library, settings, index=True), base_url=ADDRESS) as client:
        state = wait_until_indexed(client)
        assert state["photos"] == 3 and state["indexing"]["done"] == state["indexing"]["total"] == 3
        save(pictures[3:5], folder)
        assert client.post("/api/v1/library/index", json={}).status_code == 202
        assert wait_until_indexed(client)["photos"] == 5
        found = ask(client, sentence=caption(pictures[4]))
        assert found["photos"][0]["name"] == name_of(pictures[4]) and found["searched"] == 5


def test_several_that_rerank_together_are_named_and_shown(pair, pictures, tmp_path):
    """The shipped model is made so."""
    save(pictures[:4], tmp_path / "photos")
    together = replace(pair, reranker=Ensemble([pair.reranker, pair.shortlist]).eval(), digest="")
    assert together.digest != pair.digest
    library = Library(tmp_path / "library", model=together, runtime="torch")
    library.index(tmp_path / "photos")
    with TestClient(create_app(library), base_url=ADDRESS) as client:
        assert client.get("/api/v1/library").json()["model"]["kind"] == "sm-lstm + mnlm"
        best = ask(client, sentence=caption(pictures[1]))["photos"][0]
        assert best["name"] == name_of(pictures[1])
        (seen,) = ask(client, "/explain", photos=[best["id"]], sentences=[caption(pictures[1])])["explanations"]
        assert len(seen["steps"]) == 3


def test_once_indexing_has_ended_the_counts_are_final(pair, pictures, tmp_path, monkeypatch):
    """Also for who asked while it ended: counting takes as long as indexing here."""

    def slowly(served):
        found = real(served)
        for thread in threading.enumerate():
            if thread.name == "indexing":
                thread.join()
        return found

    real = Served.photo_count
    monkeypatch.setattr(Served, "photo_count", slowly)
    save(pictures[:3], tmp_path / "photos")
    library = Library(tmp_path / "library", model=pair, runtime="torch")
    settings = Settings(folders=(str(tmp_path / "photos"),))
    with TestClient(create_app(library, settings, index=True), base_url=ADDRESS) as client:
        assert wait_until_indexed(client)["photos"] == 3


def test_a_second_indexing_is_refused_while_one_runs(pair, pictures, tmp_path, monkeypatch):
    save(pictures[:2], tmp_path / "photos")
    library = Library(tmp_path / "library", model=pair, runtime="torch")
    with library.writing(), TestClient(create_app(library), base_url=ADDRESS) as client:
        client.post("/api/v1/library/index", json={})
        state = wait_until_indexed(client)
        assert "is being written by this process" in state["indexing"]["failed"]


def test_only_the_folders_that_were_named_are_served(library, photos, pictures):
    settings = Settings(folders=(str(photos / "holiday"),))
    with TestClient(create_app(library, settings), base_url=ADDRESS) as client:
        assert client.get("/api/v1/photos").json()["total"] == 5
        assert ask(client, sentence="a circle", limit=100)["searched"] == 5
        state = client.get("/api/v1/library").json()
        assert state["skipped"] == 0 and [folder["files"] for folder in state["folders"]] == [5]
        outside = {entry.path: entry.content for entry in library.entries()}[photos / name_of(pictures[0])]
        name = f"{outside & (1 << 64) - 1:016x}"
        for path in ("", "/thumbnail", "/picture", "/explanation.png?sentence=a+circle"):
            assert client.get(f"/api/v1/photos/{name}{path}").status_code == 404
        for path in ("/score", "/explain"):
            asked = {"photos": [name], "sentences": ["a circle"]}
            assert client.post(f"/api/v1{path}", json=asked).status_code == 404
        assert client.post("/api/v1/search", json={"similar": name}).status_code == 404


def test_names_that_are_not_unicode(pair, pictures, tmp_path):
    (path,) = save(pictures[:1], tmp_path / "photos")
    path.rename(path.with_name(os.fsdecode(b"caf\xe9.png")))
    library = Library(tmp_path / "library", model=pair, runtime="torch")
    library.index(tmp_path / "photos")
    with TestClient(create_app(library), base_url=ADDRESS) as client:
        (photo,) = ask(client, sentence="a circle")["photos"]
        assert photo["name"] == "caf\\udce9.png"
        assert client.get(f"/api/v1/photos/{photo['id']}/thumbnail").status_code == 200


@pytest.mark.parametrize(
    ("path", "content", "message"),
    [
        ("/search", {}, "nothing is asked for"),
        ("/search", {"sentence": "..."}, "has no words to look for"),
        ("/search", {"sentence": "a dog", "since": "May"}, "is not a date"),
        ("/search", {"sentence": "a dog", "limit": 0}, "limit: Input should be greater than or equal to 1"),
        ("/search", {"sentence": "a dog", "colour": "red"}, "colour: Extra inputs are not permitted"),
        ("/search", {"sentence": "\ud800"}, "sentence:"),
        ("/score", {"photos": ["0" * 16], "sentences": ["..."]}, "no words"),
        ("/explain", {"photos": ["../etc/passwd"], "sentences": ["a dog"]}, "photos.0:"),
    ],
)
def test_what_cannot_be_done_is_a_sentence(client, path, content, message):
    import json  # noqa: PLC0415

    answer = client.post(f"/api/v1{path}", content=json.dumps(content), headers={"Content-Type": "application/json"})
    error = answer.json()["error"]
    assert answer.status_code == 422 and message in error["message"] and error["exit_code"] == 3


def test_metrics_count_by_route_and_health_is_told(client):
    client.get("/api/v1/photos/0000000000000000")
    text = client.get("/metrics").text
    assert 'smlstm_http_requests_total{method="GET",route="/api/v1/photos/{photo}",status="404"}' in text
    assert f"smlstm_photos {float(COUNT)}" in text and "smlstm_work_waiting 0.0" in text
    assert client.get("/api/v1/health").json()["status"] == "ok"


def test_the_page_and_its_files_are_there(client):
    page = client.get("/")
    assert page.status_code == 200 and page.headers["content-type"].startswith("text/html")
    folder = Path(__file__).parents[2] / "src" / "smlstm" / "web" / "page"
    for path in folder.iterdir():
        if path.name != "index.html":
            answer = client.get(f"/assets/{path.name}")
            assert answer.content == path.read_bytes()
            again = client.get(f"/assets/{path.name}", headers={"If-None-Match": answer.headers["etag"]})
            assert again.status_code == 304 and not again.content


def wait_until_indexed(client):
    for _ in range(3000):
        state = client.get("/api/v1/library").json()
        if not state["indexing"]["running"]:
            return state
        time.sleep(0.02)
    raise AssertionError("indexing does not end")
