"""Connections that say nothing, or half of what they have to say, keep nobody out."""

import asyncio
import contextlib
import errno
import logging
import socket
import threading
import time

import httpx
import pytest
import uvicorn

from smlstm.web.connections import Crowd, Quiet, client_of, connections_within
from smlstm.web.settings import Settings

HALF_A_HEAD = b"GET / HTTP/1.1\r\nHost: 127"
WHOLE = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
LARGE = 64 << 20


async def app(scope, receive, send):
    """Answer shortly, at length, or when the body is whole."""
    if scope["method"] == "POST":
        while (await receive()).get("more_body"):
            pass
    body = bytes(LARGE) if scope["path"] == "/large" else b"hello"
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
    await send({"type": "http.response.body", "body": body})


@contextlib.contextmanager
def serving(**settings):
    """A server with some limits: its port, and who is connected."""
    protocol = connections_within(Settings(**settings), 128)
    config = uvicorn.Config(app, http=protocol, log_config=None, access_log=False, lifespan="off")
    config.timeout_graceful_shutdown = 1
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0), backlog=128) as listening:
        thread = threading.Thread(target=server.run, args=([listening],))
        thread.start()
        try:
            yield listening.getsockname()[1], protocol.crowd
        finally:
            server.should_exit = True
            thread.join()


def connect(port, sent=b""):
    found = socket.create_connection(("127.0.0.1", port), timeout=60)
    found.sendall(sent)
    return found


def end_of(connection):
    """What still came before the other side closed."""
    found = b""
    with contextlib.suppress(ConnectionResetError):
        while part := connection.recv(1 << 16):
            found += part
    return found


@contextlib.contextmanager
def many(port, count, sent=HALF_A_HEAD):
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(connect(port, sent)) for _ in range(count)]


@pytest.mark.parametrize("sent", [b"", HALF_A_HEAD, WHOLE, WHOLE + HALF_A_HEAD])
def test_who_keeps_the_server_waiting_for_a_head_is_let_go(sent):
    with serving(idle_seconds=1) as (port, crowd), connect(port, sent) as connection:
        assert end_of(connection).count(b"hello") == sent.count(WHOLE)
        assert len(crowd) == 0


def test_a_head_that_comes_in_drops_has_no_more_time_than_another():
    with serving(idle_seconds=0.3) as (port, _), connect(port) as connection, pytest.raises(OSError):
        for _ in range(1000):
            connection.sendall(b"GET / HTTP/1.1\r\n" if _ == 0 else b"X: y\r\n")
            time.sleep(0.05)


def test_half_open_connections_keep_nobody_out_and_go_first():
    with serving(connections=20, idle_seconds=600) as (port, crowd), many(port, 60) as half_open:
        assert httpx.get(f"http://127.0.0.1:{port}/").text == "hello"
        assert len(crowd) <= 20
        assert end_of(half_open[0]) == b""  # the first to come was the first to go


def test_bodies_that_do_not_end_keep_nobody_out():
    head = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\nx"
    with serving(connections=20, idle_seconds=600) as (port, _), many(port, 40, head):
        assert httpx.get(f"http://127.0.0.1:{port}/").text == "hello"


def test_who_does_not_take_an_answer_is_let_go():
    with serving(idle_seconds=1) as (port, crowd), connect(port) as connection:
        connection.sendall(WHOLE.replace(b"/ ", b"/large ", 1))
        assert connection.recv(1)  # the answer has begun
        for _ in range(600):
            if not len(crowd):
                break
            time.sleep(0.1)
        assert len(crowd) == 0 and len(end_of(connection)) < LARGE


def test_a_connection_that_asks_again_and_again_is_kept():
    with serving(idle_seconds=3) as (port, crowd), httpx.Client(base_url=f"http://127.0.0.1:{port}") as client:
        for _ in range(8):
            assert client.get("/").text == "hello" and len(crowd) == 1
            time.sleep(0.5)


class Open:
    """A connection as the crowd knows it."""

    def __init__(self):
        self.transport, self.gone = self, False

    def abort(self):
        self.gone = True


def test_one_client_has_its_share_and_gives_up_its_own_oldest():
    crowd, mine, others = Crowd(6, 2), [Open() for _ in range(3)], [Open() for _ in range(4)]
    for each in mine:
        assert crowd.admit(each, "192.0.2.1")
        crowd.wait_for(each, True)
    assert [each.gone for each in mine] == [True, False, False] and len(crowd) == 2
    crowd.wait_for(mine[1], False)
    crowd.wait_for(mine[2], False)
    assert not crowd.admit(Open(), "192.0.2.1")  # both are being answered
    for number, each in enumerate(others):
        assert crowd.admit(each, f"198.51.100.{number}")
    assert not crowd.admit(Open(), "198.51.100.9") and len(crowd) == 6
    crowd.leave(others[0])
    assert crowd.admit(Open(), "198.51.100.9")


def test_this_machine_may_have_all_places():
    crowd = Crowd(6, 2)
    assert all(crowd.admit(Open(), "127.0.0.1") for _ in range(6)) and not crowd.admit(Open(), "127.0.0.1")


def test_beyond_the_places_who_is_being_answered_keeps_his_and_the_next_is_told():
    held = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\nx"
    with serving(connections=2) as (port, crowd), many(port, 2, held):
        while len(crowd) < 2:
            time.sleep(0.01)
        crowd.wait_for = lambda *_: None
        crowd._awaited.clear()  # as if both were worked on
        with connect(port) as third:
            told = end_of(third)
    assert told.startswith(b"HTTP/1.1 503 ") and b"retry-after: 1" in told and b"too many connections" in told


def test_a_household_is_one_client():
    assert client_of("2001:db8:1:2::a") == client_of("2001:db8:1:2:ffff::1") != client_of("2001:db8:1:3::a")
    assert client_of("::ffff:192.0.2.1") == "192.0.2.1" and client_of("::1") == "::1"
    assert client_of("fe80::1%eth0") == "fe80::" and client_of("") == ""


def test_connections_leave_files_for_the_library():
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (512, before[1]))
        assert connections_within(Settings(connections=100), 50).crowd.most == 100
        resource.setrlimit(resource.RLIMIT_NOFILE, (300, before[1]))
        wanted = before[1] if before[1] > 0 else 10**6
        assert connections_within(Settings(connections=wanted), 1).crowd.most == wanted - 259
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 300  # the system was asked for more
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_lack_of_files_is_told_once_and_not_for_every_try(caplog):
    async def run():
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(Quiet())
        lack = OSError(errno.EMFILE, "Too many open files")
        for _ in range(1000):
            loop.call_exception_handler({"message": "socket.accept() out of system resource", "exception": lack})
        loop.call_exception_handler({"message": "something else", "exception": ZeroDivisionError()})

    with caplog.at_level(logging.ERROR):
        asyncio.run(run())
    assert [record.message.splitlines()[0] for record in caplog.records] == [
        "a connection could not be taken: [Errno 24] Too many open files",
        "something else",
    ]
