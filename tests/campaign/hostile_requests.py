"""What a hostile client sends. Each function does its worst once, and returns what must not have been answered."""

import json
import random
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.campaign.mutation import ABSURD, damage, damage_json
from tests.campaign.pictures import broken_picture
from tests.campaign.servers import Asked

PATIENCE = 90.0
Hostile = Callable[[random.Random, int, "Stuff"], list[str]]


class Stuff:
    """What requests are made of."""

    def __init__(self, photos: list[Path], asked: list[Asked]) -> None:
        self.photos, self.asked = photos, asked


@contextmanager
def connected(port: int, timeout: float = PATIENCE) -> Iterator[socket.socket]:
    """A connection to the server."""
    with socket.create_connection(("127.0.0.1", port), timeout) as found:
        yield found


def exchange(port: int, data: bytes, timeout: float = PATIENCE) -> bytes:
    """Send bytes and take what comes until the server closes, or says nothing for a while; b"" if it refuses."""
    parts: list[bytes] = []
    try:
        with connected(port, timeout) as found:
            found.sendall(data)
            while part := found.recv(1 << 16):
                parts.append(part)
                found.settimeout(2)
    except OSError:
        pass
    return b"".join(parts)


def request(method: str, path: str, body: bytes = b"", *, host: str = "127.0.0.1", **headers: str) -> bytes:
    """A request that asks to close the connection afterwards."""
    given = {"Host": host, "Connection": "close", "Content-Length": str(len(body)), **headers}
    lines = [f"{method} {path} HTTP/1.1", *(f"{key.replace('_', '-')}: {value}" for key, value in given.items())]
    return "\r\n".join(lines).encode("latin-1", "replace") + b"\r\n\r\n" + body


def status(answer: bytes) -> int:
    """The status of an answer; 0 for none."""
    first = answer.split(b"\r\n", 1)[0].split()
    return int(first[1]) if len(first) > 1 and first[1].isdigit() else 0


def _judged(answer: bytes, what: str, allowed: Callable[[int], bool]) -> list[str]:
    return [] if allowed(status(answer)) else [f"{what} was answered with {answer[:300]!r}"]


def no_failure(code: int) -> bool:
    """Answered, refused or told to come back; but no failure of the server's own."""
    return code != 500


def refused(code: int) -> bool:
    """Refused, or not answered at all."""
    return code == 0 or 400 <= code < 500 or code == 503


def absurd_json(rng: random.Random, port: int, stuff: Stuff) -> list[str]:
    asked, wrong = rng.choice(stuff.asked), []
    for _ in range(10):
        text = json.dumps(rng.choice(ABSURD)) if rng.random() < 0.2 else damage_json(rng, json.dumps(asked.body))
        body = damage(rng, text.encode()) if rng.random() < 0.2 else text.encode()
        answer = exchange(port, request("POST", f"/api/v1{asked.path}", body, Content_Type="application/json"))
        wrong += _judged(answer, f"{asked.path} {body[:200]!r}", no_failure)
    return wrong


def deep_nesting(rng: random.Random, port: int, _: Stuff) -> list[str]:
    opening, closing = rng.choice((("[", "]"), ('{"a":', "}")))
    body = (opening * 100_000 + "1" + closing * 100_000).encode()[:1_000_000]
    answer = exchange(port, request("POST", "/api/v1/search", body, Content_Type="application/json"))
    return _judged(answer, "deep nesting", refused)


def long_words(rng: random.Random, port: int, _: Stuff) -> list[str]:
    text = rng.choice(("a" * 1000, "\u0301" * 1000, "\ufdfa" * 1000, " ".join("a" * 500), "\u202e\u0000\ud7ff" * 300))
    body = json.dumps({"sentence": text}).encode()
    answer = exchange(port, request("POST", "/api/v1/search", body, Content_Type="application/json"))
    return _judged(answer, f"a sentence of {text[:3]!r}...", no_failure)


def broken_uploads(rng: random.Random, port: int, stuff: Stuff) -> list[str]:
    mark, parts = "x" * 20, []
    for number in range(rng.randint(1, 4)):
        _, data = broken_picture(rng, stuff.photos)
        head = f'--{mark}\r\nContent-Disposition: form-data; name="photos"; filename="../{number}.jpg"\r\n\r\n'
        parts.append(head.encode() + data + b"\r\n")
    parts.append(f'--{mark}\r\nContent-Disposition: form-data; name="sentences"\r\n\r\na star\r\n'.encode())
    body = b"".join(parts) + f"--{mark}--\r\n".encode()
    if rng.random() < 0.3:
        body = damage(rng, body)
    kind = f"multipart/form-data; boundary={mark}"
    path = rng.choice(("/api/v1/uploads/score", "/api/v1/uploads/annotate"))
    return _judged(exchange(port, request("POST", path, body, Content_Type=kind)), "a broken upload", no_failure)


def traversal(rng: random.Random, port: int, _: Stuff) -> list[str]:
    up = rng.choice(("../", "..%2f", "%2e%2e/", "..\\", "..%5c", "....//", "%252e%252e%252f")) * 8
    path = (
        rng.choice(("/", "/assets/", "/api/v1/photos/", "/api/v1/")) + up + rng.choice(("etc/passwd", "etc%2fpasswd"))
    )
    answer = exchange(port, request("GET", path))
    return [f"{path} gave {answer[:200]!r}"] if b"root:" in answer or status(answer) in (200, 500) else []


def wrong_names(rng: random.Random, port: int, _: Stuff) -> list[str]:
    case = rng.choice(
        (
            {"host": rng.choice(("evil.example", "127.0.0.1.evil.example", "", "localhost:1@evil", "a" * 3000))},
            {"Origin": rng.choice(("http://evil.example", "null", "http://127.0.0.1.evil.example"))},
            {"Sec_Fetch_Site": "cross-site"},
        )
    )
    answer = exchange(port, request("GET", "/api/v1/photos", **case))
    return _judged(answer, f"{case}", refused)


def wrong_lengths(rng: random.Random, port: int, _: Stuff) -> list[str]:
    length = rng.choice(
        ("-1", "abc", "1e9", "18446744073709551616", "5\r\nContent-Length: 6", "0x10", "99999999999999")
    )
    data = request("POST", "/api/v1/search", b'{"sentence": "a"}', Content_Length=length)
    if rng.random() < 0.3:
        data = data.replace(b"Connection", b"Transfer-Encoding: chunked\r\nConnection", 1)
    return _judged(exchange(port, data, 5), f"Content-Length {length}", lambda code: code not in (200, 500))


def chunks(rng: random.Random, port: int, _: Stuff) -> list[str]:
    body = rng.choice(
        (b"zz\r\n", b"-5\r\nhello\r\n", b"ffffffffffffffff\r\nx", b"5;" + b"a" * 70_000, rng.randbytes(500))
    )
    head = b"POST /api/v1/search HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n"
    return _judged(exchange(port, head + body, 5), "chunks that are none", lambda code: code not in (200, 500))


def huge_headers(rng: random.Random, port: int, _: Stuff) -> list[str]:
    many = rng.choice((b"X-A: " + b"a" * 2_000_000 + b"\r\n", b"X-A: b\r\n" * 50_000, b"Cookie: " + b"a=b;" * 100_000))
    answer = exchange(port, b"GET /api/v1/health HTTP/1.1\r\nHost: 127.0.0.1\r\n" + many + b"\r\n\r\n", 10)
    return _judged(answer, "huge headers", no_failure)


def pipelining(rng: random.Random, port: int, stuff: Stuff) -> list[str]:
    one = request("GET", "/api/v1/health", Connection="keep-alive")
    body = json.dumps(rng.choice(stuff.asked).body).encode()
    other = request("POST", "/api/v1/search", body, Connection="keep-alive", Content_Type="application/json")
    answer = exchange(port, (one + other) * 10 + one, 20)
    return _judged(answer, "pipelined requests", lambda code: code in (0, 200, 503))


def gibberish(rng: random.Random, port: int, _: Stuff) -> list[str]:
    data = rng.choice(
        (
            rng.randbytes(3000),
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + rng.randbytes(200),
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            b"GET /\x00 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
            b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
            request("TRACE", "/"),
            request("CONNECT", "evil.example:443"),
            request("GET", "/api/v1/library", Upgrade="websocket", Connection="Upgrade", Sec_WebSocket_Key="a"),
            request("GET", "/api/v1/photos?offset=" + "9" * 5000),
            request("GET", "/api/v1/photos/" + "f" * 16 + "/picture"),
        )
    )
    return _judged(exchange(port, data, 5), repr(data[:60]), no_failure)


def hanging_up(rng: random.Random, port: int, stuff: Stuff) -> list[str]:
    """Ask, and be gone before the answer comes."""
    for _ in range(rng.randint(1, 10)):
        asked = rng.choice(stuff.asked)
        data = request("POST", f"/api/v1{asked.path}", json.dumps(asked.body).encode(), Content_Type="application/json")
        with connected(port) as found:
            found.sendall(data[: rng.choice((len(data), rng.randrange(len(data))))])
            time.sleep(rng.random() * 0.05)
            found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    return []


HOSTILE: tuple[Hostile, ...] = (
    absurd_json, deep_nesting, long_words, broken_uploads, traversal, wrong_names, wrong_lengths, chunks, huge_headers,
    pipelining, gibberish, hanging_up,
)  # fmt: skip
