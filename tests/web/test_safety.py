"""Who may not ask, what may not be sent, and that nothing but photos of the library comes back."""

import gc
import io
import struct
import tempfile
import zlib
from concurrent.futures import ThreadPoolExecutor

import pytest
from fastapi.testclient import TestClient
from PIL import Image

from smlstm.search import Library
from smlstm.vision.backbones import Backbone
from smlstm.web.app import create_app
from smlstm.web.gate import host_name
from smlstm.web.settings import Settings
from tests.web.made import ADDRESS, bomb, caption, save, upload

SECRET = "the content of a file that nobody may read"


def refused(answer, status, code=None):
    assert answer.status_code == status, answer.text
    error = answer.json()["error"]
    assert "Traceback" not in answer.text and (code is None or error["code"] == code)
    return error["message"]


@pytest.fixture
def near(photos):
    """A secret just outside of the folder of photos."""
    path = photos.parent / "secret.txt"
    path.write_text(SECRET)
    yield path
    path.unlink()


@pytest.mark.parametrize(
    "name",
    [
        "../secret.txt",
        "..%2fsecret.txt",
        "..%2Fsecret.txt",
        "%2e%2e/secret.txt",
        "%2e%2e%2fsecret.txt",
        "..%252fsecret.txt",
        "..%c0%afsecret.txt",
        "..%5csecret.txt",
        "..\\secret.txt",
        "....//secret.txt",
        "%00../secret.txt",
        "secret.txt%00.png",
        "/etc/passwd",
        "//etc/passwd",
        "%2fetc%2fpasswd",
        "file:///etc/passwd",
        "~/secret.txt",
        "..;/secret.txt",
        ".%2e/%2e./secret.txt",
        "%uff0e%uff0e/secret.txt",
        "\uff10" * 16,
        "0000000000000000/../../../secret.txt",
        "0000000000000000%0a",
    ],
)
@pytest.mark.parametrize("form", ["/assets/{}", "/{}", "/api/v1/photos/{}/thumbnail", "/api/v1/photos/{}"])
def test_no_spelling_of_a_path_leads_out(client, near, form, name):
    answer = client.get(form.format(name))
    assert answer.status_code in (400, 404, 405, 422), (form, name, answer.status_code)
    assert SECRET not in answer.text and "root:" not in answer.text


def test_no_path_is_taken_in_a_question(client, near):
    for similar in (str(near), "../secret.txt"):
        refused(client.post("/api/v1/search", json={"similar": similar}), 422, "input")


def test_what_took_the_place_of_a_file_is_not_shown(pair, pictures, tmp_path):
    first, second = save(pictures[:2], tmp_path / "photos")
    outside = tmp_path / "outside.png"
    pictures[2].picture.save(outside)
    library = Library(tmp_path / "library", model=pair, runtime="torch")
    library.index(tmp_path / "photos")
    with TestClient(create_app(library), base_url=ADDRESS) as client:
        ids = {photo["name"]: photo["id"] for photo in client.get("/api/v1/photos").json()["photos"]}
        first.unlink()
        first.symlink_to(outside)
        second.write_text(SECRET)
        for path in (first, second):
            for size in ("thumbnail", "picture"):
                message = refused(client.get(f"/api/v1/photos/{ids[path.name]}/{size}"), 404, "not_found")
                assert "has changed or gone" in message and str(tmp_path) not in message


WRONG_HOSTS = [
    "evil.example",
    "evil.example:8765",
    "127.0.0.1.evil.example",
    "localhost.evil.example",
    "127.0.0.1@evil.example",
    "[::1].evil.example",
    "127.0.0.1:80:80",
    "192.168.1.5",
    "",
]
OUR_HOSTS = ["127.0.0.1", "127.0.0.1:8765", "localhost:8765", "LOCALHOST", "[::1]:8765", "localhost."]
OTHER_ORIGINS = ["https://evil.example", "null", "http://127.0.0.1:9999", "http://127.0.0.1", "file://"]


@pytest.mark.parametrize("host", WRONG_HOSTS)
def test_another_name_is_refused(client, host):
    refused(client.get("/api/v1/library", headers={"Host": host}), 403, "refused")
    refused(client.get("/", headers={"Host": host}), 403)


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.0.0.1:8765", "localhost:8765", "LOCALHOST", "[::1]:8765", "localhost."]
)
def test_the_names_of_this_machine_are_let_in(client, host):
    assert client.get("/api/v1/library", headers={"Host": host}).status_code == 200


def test_further_names_can_be_allowed(client_of):
    with client_of(hosts=("photos.example",)) as client:
        assert client.get("/api/v1/library", headers={"Host": "photos.example"}).status_code == 200
        refused(client.get("/api/v1/library", headers={"Host": "other.example"}), 403)


def test_host_names():
    assert host_name("[::1]:80") == "[::1]" and host_name("[::1]") == "[::1]" and host_name("A.b:1") == "a.b"
    assert host_name("a:b") == "" and host_name("") == ""


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "http://127.0.0.1:9999", "http://127.0.0.1", "file://"]
)
@pytest.mark.parametrize("path", ["/api/v1/search", "/api/v1/library/index", "/api/v1/uploads/annotate"])
def test_a_page_of_another_site_is_refused(client, origin, path):
    refused(client.post(path, json={"sentence": "a circle"}, headers={"Origin": origin}), 403, "refused")


def test_the_page_itself_may_ask(client):
    answer = client.post("/api/v1/search", json={"sentence": "a circle"}, headers={"Origin": ADDRESS})
    assert answer.status_code == 200
    assert "access-control-allow-origin" not in answer.headers


def test_what_a_browser_marks_as_from_elsewhere_is_refused_but_for_a_link_to_the_page(client):
    marks = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"}
    refused(client.get("/api/v1/photos", headers=marks), 403)
    refused(client.get("/api/v1/photos", headers={"Sec-Fetch-Site": "same-site"}), 403)  # another port of this machine
    link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    assert client.get("/", headers=link).status_code == 200
    refused(client.get("/api/v1/library", headers=link), 403)
    refused(client.get("/", headers=link | {"Sec-Fetch-Dest": "iframe"}), 403)


def test_without_the_token_nothing_is_told(client_of):
    with client_of(host="0.0.0.0", token="hush") as client:
        for path in ("/api/v1/library", "/api/v1/photos", "/metrics", "/api/v1/openapi.json", "/assets/app.js"):
            assert "Authorization: Bearer" in refused(client.get(path), 401, "token")
            refused(client.get(path, headers={"Authorization": "Bearer wrong"}), 401)
            refused(client.get(path, headers={"Authorization": "Basic hush"}), 401)
            refused(client.get(path, headers={"Cookie": "smlstm_8765=wrong; smlstm=hush"}), 401)
            assert client.get(path, headers={"Authorization": "Bearer hush"}).status_code == 200
        page = client.get("/?token=wrong")
        assert page.status_code == 401 and "<form" in page.text and "hush" not in page.text
        assert client.get("/api/v1/health").json()["status"] == "ok"


def test_the_link_with_the_token_leaves_a_cookie_and_no_trace_in_the_address(client_of):
    with client_of(host="0.0.0.0", token="hush") as client:
        answer = client.get("/?token=hush", follow_redirects=False)
        assert answer.status_code == 303 and answer.headers["location"] == "/"
        assert "HttpOnly" in answer.headers["set-cookie"] and "SameSite=strict" in answer.headers["set-cookie"]
        assert client.get("/api/v1/library").status_code == 200  # the client kept it
        assert client.get("/", headers={"Host": "evil.example"}).status_code == 403


def test_every_answer_has_the_headers_that_keep_a_browser_safe(client):
    paths = ("/", "/assets/app.js", "/api/v1/library", "/nothing", "/api/v1/photos/zzz")
    for answer in (*map(client.get, paths), client.get("/", headers={"Host": "evil.example"})):
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy and "frame-ancestors 'none'" in policy
        assert (
            answer.headers["x-content-type-options"] == "nosniff" and answer.headers["referrer-policy"] == "no-referrer"
        )
        assert answer.headers["cross-origin-resource-policy"] == "same-origin"
        assert "server" not in answer.headers


def test_bombs_are_refused_from_their_header(client):
    message = refused(client.post("/api/v1/uploads/annotate", files=[upload(bomb(50_000, 50_000), "b.png")]), 422)
    assert message == "cannot read photo b.png: 50000 x 50000 pixels are over the limit of 64 megapixels"


def test_photos_that_are_too_large_together_are_refused_before_any_is_decoded(client_of, monkeypatch):
    monkeypatch.setattr("smlstm.web.uploads.decoded_photo", lambda *_, **__: pytest.fail("a photo was decoded"))
    sent = [upload(Image.new("1", (1000, 1000)), f"{number}.png") for number in range(4)]
    with client_of(request_megapixels=3) as client:
        answer = client.post("/api/v1/uploads/score", files=sent, data={"sentences": "a circle"})
    message = "the photos have 4 megapixels together, and those of a request may have 3: send fewer at once, or smaller"
    assert refused(answer, 413, "too_large").startswith(message)


def test_however_many_photos_are_sent_one_large_one_is_held_at_a_time(client, monkeypatch):
    held, size, preprocess = [], (701, 700), Backbone.preprocess

    def counting(self, photo):
        alive = (each for each in gc.get_objects() if issubclass(type(each), Image.Image) and each.size == size)
        held.append(sum(1 for each in alive if each.im is not None))
        return preprocess(self, photo)

    monkeypatch.setattr(Backbone, "preprocess", counting)
    monkeypatch.setattr("smlstm.vision.decode._LARGE_PIXELS", 100_000)
    data = upload(Image.new("RGB", (701, 700)))[1][1]
    sent = [upload(data, f"{number}.png") for number in range(4)]

    def ask(_):
        return client.post("/api/v1/uploads/score", files=sent, data={"sentences": "a circle"}).status_code

    with ThreadPoolExecutor(3) as askers:
        assert list(askers.map(ask, range(3))) == [200] * 3
    assert len(held) == 12 and max(held) <= 2  # a photo and what it was made from


def test_a_png_full_of_compressed_text_is_refused(client, pictures):
    file = io.BytesIO()
    pictures[0].picture.save(file, "PNG")
    text = b"Comment\0\0" + zlib.compress(bytes(200_000_000))
    chunk = struct.pack(">I", len(text)) + b"zTXt" + text + struct.pack(">I", zlib.crc32(b"zTXt" + text))
    data = file.getvalue()
    answer = client.post("/api/v1/uploads/annotate", files=[upload(data[:33] + chunk + data[33:])])
    assert answer.status_code == 422 and "the PNG data is damaged" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "the file is empty"),
        (b"hello", "its content is not in a format that is read here"),
        (b"\xff\xd8\xff\xe0 no picture", "the JPEG data is damaged or incomplete"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "not in a format"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n(/etc/passwd) run", "not in a format"),
    ],
)
def test_broken_uploads_are_refused_by_name(client, data, message):
    found = refused(client.post("/api/v1/uploads/annotate", files=[upload(data, "../../etc/x.jpg")]), 422, "input")
    assert found.startswith("cannot read photo x.jpg: ") and message in found


def test_large_requests_are_refused_with_and_without_a_length(client_of, pictures):
    with client_of(upload_bytes=20_000, json_bytes=1000) as client:
        large = [upload(Image.effect_noise((300, 300), 90))]
        message = refused(client.post("/api/v1/uploads/annotate", files=large), 413, "too_large")
        assert message == "the request is larger than 20000 bytes"

        def parts():
            for _ in range(100):
                yield b"x" * 1000

        refused(client.post("/api/v1/search", content=parts(), headers={"Content-Type": "application/json"}), 413)
        kind = {"Content-Type": "multipart/form-data; boundary=x"}
        refused(client.post("/api/v1/uploads/annotate", content=parts(), headers=kind), 413)
        lying = {"Content-Type": "application/json", "Content-Length": "5"}
        refused(client.post("/api/v1/search", content=b"x" * 5000, headers=lying), 413)
        assert client.post("/api/v1/search", json={"sentence": caption(pictures[0])}).status_code == 200


def test_too_many_photos_are_refused(client, pictures):
    refused(client.post("/api/v1/uploads/annotate", files=[upload(pictures[0].picture)] * 9), 422)


def test_deep_and_wrong_json_is_refused(client):
    for content in (b"[" * 100_000, b"{", b'{"sentence": 1e999999}', b"\xff\xfe", b"9" * 10_000):
        answer = client.post("/api/v1/search", content=content, headers={"Content-Type": "application/json"})
        assert answer.status_code in (400, 422) and "error" in answer.json()


def test_a_failure_of_ours_is_told_without_its_cause(client_of, monkeypatch, caplog):
    with client_of() as client:
        monkeypatch.setattr(client.app.state.service, "search", lambda _: 1 / 0)
        message = refused(client.post("/api/v1/search", json={"sentence": "a circle"}), 500, "failed")
        number = message.rpartition(" ")[2]
        assert "division" not in message and f"request {number} failed" in caplog.text and "ZeroDivision" in caplog.text


def test_uploads_are_not_kept(client, pictures, library, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = {path: path.stat().st_mtime_ns for path in library.folder.rglob("*")}
    large = Image.effect_noise((1500, 1500), 90)  # more than is held in memory while it arrives
    assert client.post("/api/v1/uploads/annotate", files=[upload(large)]).status_code == 200
    assert {path: path.stat().st_mtime_ns for path in library.folder.rglob("*")} == before
    assert list(tmp_path.iterdir()) == []


def test_nothing_else_is_spoken(client):
    for method in ("PUT", "DELETE", "PATCH", "TRACE"):
        answer = client.request(method, "/api/v1/library")
        assert answer.status_code == 405 and answer.json()["error"]["code"] == "method"
    assert client.get("/docs").status_code == client.get("/redoc").status_code == 404


def test_settings_know_what_others_can_reach():
    assert Settings().is_loopback and Settings(host="localhost").is_loopback and Settings(host="::1").is_loopback
    assert not Settings(host="0.0.0.0").is_loopback and not Settings(host="photos.example").is_loopback
    assert "hush" not in repr(Settings(token="hush"))
