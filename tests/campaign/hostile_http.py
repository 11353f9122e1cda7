"""Hostile clients of a real server; meanwhile a healthy one is answered, and rightly."""

import random
import resource
import socket
import threading
import time
from contextlib import ExitStack, suppress
from typing import Any

import httpx

from tests.campaign.hostile_requests import HOSTILE, Stuff, request
from tests.campaign.libraries import indexed
from tests.campaign.servers import Asked, NotStarted, Server, photo_ids, questions, served
from tests.campaign.verdict import Verdict
from tests.campaign.workplace import Workplace

_SECONDS = 12.0


def hostile_http(rng: random.Random, place: Workplace) -> Verdict:
    """Requests that are wrong in every way that we can think of, from a few threads."""
    return _attack(rng, place, holding=False)


def holding_connections(rng: random.Random, place: Workplace) -> Verdict:
    """Connections that send half of what they should, and stay; beside other hostile ones."""
    return _attack(rng, place, holding=True)


def _attack(rng: random.Random, place: Workplace, holding: bool) -> Verdict:
    subject = indexed(place, 0.4, rng)
    healthy = sorted(path for path in subject.photos.rglob("*") if path.is_file() and path.stat().st_size > 100)
    options = ("--no-index", *subject.options, "--runtime", "torch")
    try:
        with served(place, *options) as server, httpx.Client() as client:
            asked = questions(rng, photo_ids(server), 12)
            alone = [server.ask(each, client) for each in asked]  # by a server of its own: the other keeps answers
            server.end()
        with served(place, *options) as server, ExitStack() as held:
            if holding:
                _hold(rng, server, held)
            _harm(rng, server, Stuff(healthy, asked), alone, threads=1 if holding else 3)
            _ask_all(server, asked, alone, "after the attack")
            server.end(twice=rng.random() < 0.3)
    except NotStarted:
        pass
    subject.judge_answers()
    return place.verdict


def _harm(rng: random.Random, server: Server, stuff: Stuff, alone: list[Any], threads: int) -> None:
    """Send hostile requests for a while; a healthy client asks meanwhile."""
    end, wrong = time.monotonic() + _SECONDS, list[str]()
    seeds = [rng.random() for _ in range(threads)]

    def work(seed: float) -> None:
        chance = random.Random(seed)
        while time.monotonic() < end:
            with suppress(OSError):  # the server may refuse, or hang up
                wrong.extend(chance.choice(HOSTILE)(chance, server.port, stuff))

    workers = [threading.Thread(target=work, args=(seed,), daemon=True) for seed in seeds]
    for worker in workers:
        worker.start()
    while time.monotonic() < end and server.place.verdict.passed:
        _ask_all(server, stuff.asked, alone, "during the attack")
    for worker in workers:
        worker.join(120)
    for each in wrong[:5]:
        server.place.verdict.add("wrong", each[:500], "smlstm serve")


def _ask_all(server: Server, asked: list[Asked], alone: list[Any], when: str) -> None:
    with httpx.Client() as client:
        for question, expected in zip(asked, alone, strict=True):
            found = server.ask(question, client)
            if found is None:
                return
            if found != expected:
                text = f"{when} {question.path} {question.body} is answered otherwise than alone"
                server.place.verdict.add("wrong", text[:500], "smlstm serve")
                return


def _hold(rng: random.Random, server: Server, held: ExitStack) -> None:
    """Open connections that stall in the middle of a header or of a body, and keep them."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 4096 if hard == resource.RLIM_INFINITY else min(hard, 4096)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    upload = request("POST", "/api/v1/uploads/score", Content_Type="multipart/form-data; boundary=x")
    upload = upload.replace(b"Content-Length: 0", b"Content-Length: 20000000")
    small = request("POST", "/api/v1/search", Content_Type="application/json")
    small = small.replace(b"Content-Length: 0", b"Content-Length: 500000") + b'{"sentence": "'
    kinds = {b"GET /api/v1/health HTTP/1.1\r\nHo": rng.choice((0, 200, 1100)), b"": rng.choice((0, 200))}
    kinds |= {upload + b"--x\r\n": rng.choice((0, 8, 20)), small: rng.choice((0, 8, 70))}
    if not any(kinds.values()):
        kinds[upload + b"--x\r\n"] = 8
    for data, count in kinds.items():
        for _ in range(count):
            with suppress(OSError):  # which it may well refuse
                found = held.enter_context(socket.create_connection(("127.0.0.1", server.port), 5))
                found.sendall(data)
