"""`smlstm serve` as a process of its own: how it starts, what it says, how it ends."""

import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack, contextmanager

import httpx
import pytest
from tests.command_line import smlstm
from tests.search.made import draw, make_pair

from smlstm.data.lock import WriterLock


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return make_pair(tmp_path_factory.mktemp("model"))


@contextmanager
def served(*arguments, before=()):
    """A server on a free port, behind the command `before`: the process, and the address that it printed."""
    command = [sys.executable, "-c", "from smlstm.cli import main; main()", "serve", "--port", "0", "--no-open"]
    process = subprocess.Popen(
        [*before, *command, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        address = process.stdout.readline().strip()
        assert address, process.communicate(timeout=60)[1]
        yield process, address
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("way", [signal.SIGTERM, signal.SIGINT])
def test_it_serves_and_ends_in_good_order_even_while_it_indexes(model, tmp_path, way):
    draw(tmp_path / "photos", 40, size=32)
    library = tmp_path / "library"
    options = ("--library", library, "--model", model, "--runtime", "torch", "--log", "json")
    with served(tmp_path / "photos", *options) as (process, address):
        assert httpx.get(f"{address}api/v1/health").json()["status"] == "ok"
        assert httpx.get(address).headers["content-type"].startswith("text/html")
        process.send_signal(way)
        _, told = process.communicate(timeout=120)
    assert process.returncode == 0, told
    lines = [json.loads(line) for line in told.splitlines() if line.startswith("{")]
    (request,) = [line for line in lines if line.get("path") == "/api/v1/health"]
    assert request["status"] == 200 and request["method"] == "GET" and request["client"] == "127.0.0.1"
    assert len(request["request"]) == 16 and "Traceback" not in told
    assert f"library: {library}" in told
    WriterLock(library / "lock").release()  # which nobody holds any more
    outcome = json.loads(smlstm("index", "--json", *options[:6]).stdout)
    assert outcome["new"] + outcome["unchanged"] == 40  # what was stored stays, the rest comes now


def test_other_machines_need_a_token_which_is_made_up(model, tmp_path):
    with served("--host", "0.0.0.0", "--library", tmp_path / "library", "--model", model) as (_, address):
        page, _, token = address.partition("?token=")
        assert len(token) >= 32
        here = f"http://127.0.0.1:{page.rstrip('/').rpartition(':')[2]}/api/v1/library"
        assert httpx.get(here).status_code == 401
        assert httpx.get(here, headers={"Authorization": f"Bearer {token}"}).json()["photos"] == 0


@pytest.mark.skipif(sys.platform == "win32", reason="has no limit of files")
def test_half_open_connections_silence_no_server_and_fill_no_log(model, tmp_path):
    few_files = ["sh", "-c", 'ulimit -n 400; exec "$@"', "sh"]
    options = ("--host", "0.0.0.0", "--library", tmp_path / "library", "--model", model)
    with ExitStack() as half_open, served(*options, before=few_files) as (process, address):
        port = int(address.partition("/?token=")[0].rpartition(":")[2])
        for _ in range(500):
            connection = half_open.enter_context(socket.create_connection(("127.0.0.1", port), timeout=60))
            connection.sendall(b"GET / HTTP/1.1\r\nHost: 127.0")
        assert httpx.get(f"http://127.0.0.1:{port}/api/v1/health").json()["status"] == "ok"
        process.terminate()
        _, told = process.communicate(timeout=60)
    assert process.returncode == 0 and len(told.splitlines()) < 10, told


def test_a_port_that_is_taken_is_told(model, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        found = smlstm("serve", "--port", port, "--library", tmp_path / "library", "--model", model, "--no-open")
    assert found.returncode == 1 and found.stdout == ""
    assert f"cannot listen on 127.0.0.1, port {port} (Address already in use): choose with --host" in found.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["missing-folder"], 3, "there is no folder missing-folder"),
        (["--log", "loud"], 2, "'loud' is neither text nor json"),
        (["--model", "missing-model"], 3, "missing-model is not a pair of models"),
    ],
)
def test_what_cannot_be_served_is_a_sentence(tmp_path, arguments, code, message):
    found = smlstm("serve", "--port", 0, "--no-open", "--library", tmp_path / "library", *arguments)
    assert found.returncode == code and message in found.stderr and "Traceback" not in found.stderr


def test_help_has_examples():
    assert "smlstm serve " in smlstm("serve", "--help").stdout.partition("Examples:")[2]


def test_the_page_is_opened_where_there_is_a_desktop(model, tmp_path, monkeypatch):
    opened = []
    monkeypatch.setattr("smlstm.web.server.run", lambda app, found, ready: (ready(), found.close()))
    monkeypatch.setattr("typer.launch", opened.append)
    options = ("--library", tmp_path / "library", "--model", model, "--port", 0)
    assert smlstm("serve", *options).returncode == 0 and opened == []  # stdout is no terminal here
    found = smlstm("serve", "--open", *options)
    assert opened == [found.stdout.strip()] and opened[0].startswith("http://127.0.0.1:")
    assert os.environ.get("SMLSTM_TOKEN") is None
