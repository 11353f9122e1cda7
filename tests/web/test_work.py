import asyncio
import threading

import pytest

from smlstm.search.matches import Found, Match
from smlstm.web.app import create_app
from smlstm.web.body_limits import Bodies
from smlstm.web.rankings import Ranking
from smlstm.web.settings import Settings
from smlstm.web.work import Busy, Queue


class Held:
    """Work that goes on until it is let go."""

    def __init__(self):
        self.free, self.order = threading.Event(), []

    def __call__(self, name):
        self.free.wait(60)
        self.order.append(name)
        return name


async def started(queue, tasks):
    """Let tasks run until they wait for something else."""
    for _ in range(20):
        await asyncio.sleep(0)
    return tasks


def test_clients_take_turns():
    async def run():
        queue, work = Queue(1, 20, 10), Held()
        asked = ["greedy"] * 5 + ["modest"]
        tasks = [asyncio.create_task(queue.run(name, work, f"{name} {n}")) for n, name in enumerate(asked)]
        await started(queue, tasks)
        assert (queue.running, queue.waiting) == (1, 5)
        work.free.set()
        await asyncio.gather(*tasks)
        assert work.order[:4] == ["greedy 0", "greedy 1", "modest 5", "greedy 2"]
        assert (queue.running, queue.waiting) == (0, 0)
        queue.close()

    asyncio.run(run())


def test_beyond_the_places_to_wait_a_question_is_refused_at_once():
    async def run():
        queue, work = Queue(1, 3, 2), Held()
        tasks = [asyncio.create_task(queue.run("a", work, n)) for n in range(4)]
        tasks += [asyncio.create_task(queue.run("b", work, n)) for n in range(2)]
        await started(queue, tasks)
        assert isinstance(tasks[3].exception(), Busy)  # one client's places
        assert isinstance(tasks[5].exception(), Busy)  # everyone's
        assert queue.refused == 2 and queue.waiting == 3
        work.free.set()
        assert await asyncio.gather(*(task for task in tasks if not task.done())) == [0, 1, 2, 0]
        queue.close()

    asyncio.run(run())


def test_who_goes_away_while_waiting_leaves_no_gap():
    async def run():
        queue, work = Queue(1, 5, 5), Held()
        tasks = [asyncio.create_task(queue.run("a", work, n)) for n in range(4)]
        await started(queue, tasks)
        tasks[1].cancel()
        tasks[3].cancel()
        await started(queue, tasks)
        assert queue.waiting == 1
        work.free.set()
        assert await tasks[2] == 2
        assert (queue.running, queue.waiting) == (0, 0)
        queue.close()

    asyncio.run(run())


def test_what_work_raises_is_raised_and_frees_the_thread():
    async def run():
        queue = Queue(1, 1, 1)
        with pytest.raises(ZeroDivisionError):
            await queue.run("a", lambda: 1 / 0)
        assert await queue.run("a", lambda: 5) == 5
        queue.close()

    asyncio.run(run())


def test_an_overload_is_answered_with_503_and_when_to_come_back(library):
    """Asked without a client in between, so that requests are truly there at once."""
    app = create_app(library, Settings(workers=1, waiting=2, waiting_each=2))
    work = Held()
    search = app.state.service.search
    app.state.service.search = lambda question: work("waits") and search(question)
    body = b'{"sentence": "a circle"}'

    async def one():
        messages = []

        async def receive():
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message):
            messages.append(message)

        await app(scope("/api/v1/search", body), receive, send)
        return messages[0]["status"], dict(messages[0]["headers"])

    async def run():
        tasks = [asyncio.create_task(one()) for _ in range(6)]
        while sum(task.done() for task in tasks) < 3:
            await asyncio.sleep(0.001)
        answered = [task.result() for task in tasks if task.done()]
        assert [status for status, _ in answered] == [503] * 3
        assert all(headers[b"retry-after"] == b"1" for _, headers in answered)
        work.free.set()
        assert sorted(status for status, _ in await asyncio.gather(*tasks)) == [200] * 3 + [503] * 3

    asyncio.run(run())


async def reads_all(_, receive, send):
    """Read a body to its end, and say so."""
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": []})


async def ask(bodies, parts, path="/api/v1/search"):
    """Send parts of a body and then nothing more, unless a part is the last; the status of the answer."""
    messages, waiting = [], list(parts)

    async def receive():
        if not waiting:
            await asyncio.Event().wait()
        part = waiting.pop(0)
        return {"type": "http.request", "body": part.rstrip(b"."), "more_body": not part.endswith(b".")}

    async def send(message):
        messages.append(message)

    await bodies(scope(path, None), receive, send)
    return messages[0]["status"]


UPLOAD = "/api/v1/uploads/annotate"


def test_a_request_that_stalls_is_ended_long_before_its_time_is_over():
    async def run():
        bodies = Bodies(reads_all, Settings(body_seconds=3600, idle_seconds=0.05))
        assert await ask(bodies, []) == await ask(bodies, [b"x"], UPLOAD) == 408
        assert await ask(bodies, [b"x", b"x."], UPLOAD) == 200

    asyncio.run(run())


def test_a_request_that_trickles_in_is_ended_in_time():
    async def run():
        bodies = Bodies(reads_all, Settings(body_seconds=0.05, idle_seconds=3600))
        assert await ask(bodies, [b"x"]) == 408

    asyncio.run(run())


def test_stalled_uploads_take_only_what_has_arrived_and_nothing_from_questions():
    async def run():
        limits = Settings(idle_seconds=3600, upload_bytes=100, json_bytes=100, arriving_bytes=200)
        bodies = Bodies(reads_all, limits)
        stalled = [asyncio.create_task(ask(bodies, [b"x" * 10], UPLOAD)) for _ in range(19)]
        await started(bodies, stalled)
        assert await ask(bodies, [b"x" * 9, b"x."], UPLOAD) == 200  # though all announce 1,900 bytes
        assert await ask(bodies, [b"x" * 11, b"x."], UPLOAD) == 503
        assert await ask(bodies, [b"x" * 50, b"x."]) == 200  # a question
        for task in stalled:
            task.cancel()
        await asyncio.gather(*stalled, return_exceptions=True)
        assert await ask(bodies, [b"x" * 90, b"x."], UPLOAD) == 200  # what they had is free again

    asyncio.run(run())


def scope(path, body):
    headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
    headers += [] if body is None else [(b"content-length", b"%d" % len(body))]
    return {"type": "http", "http_version": "1.1", "method": "POST", "path": path, "raw_path": path.encode(),
            "root_path": "", "scheme": "http", "query_string": b"", "headers": headers, "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 80)}  # fmt: skip


class Asked:
    """A question to nine photos, of which some parts are put in order; remembers which."""

    def __init__(self, searched=9, least=0):
        self.searched, self.least, self.parts = searched, least, []

    def __call__(self, start, end):
        self.parts.append((start, end))
        there = [each for each in range(start, min(end, self.searched)) if each >= self.least]
        return Found(tuple(Match(None, 0.5, 0.5, content=each) for each in reversed(there)), searched=self.searched)


@pytest.fixture
def parts(monkeypatch):
    monkeypatch.setattr("smlstm.web.rankings.SHORTLISTS", (2, 4, 6, 8))


def shown(ranking, offset, limit):
    found, more, _ = ranking.part(offset, limit)
    return [match.content for match in found], more


def test_a_ranking_grows_behind_what_was_shown(parts):
    asked = Asked()
    ranking = Ranking(asked, countable=True)
    assert shown(ranking, 0, 3) == ([1, 0], True) and asked.parts == [(0, 2)]
    assert shown(ranking, 2, 3) == ([3, 2, 5], True) and asked.parts == [(0, 2), (2, 4), (4, 6)]
    assert shown(ranking, 5, 3) == ([4, 7, 6], False) and asked.parts[3:] == [(6, 8)]
    assert shown(ranking, 0, 3) == ([1, 0], True) and len(asked.parts) == 4


def test_who_asks_for_the_end_waits_for_no_part_before_it(parts):
    asked = Asked()
    ranking = Ranking(asked, countable=True)
    assert shown(ranking, 6, 2) == ([7, 6], False) and asked.parts == [(6, 8)]
    assert shown(ranking, 3, 2) == ([2, 5], True) and asked.parts[1:] == [(2, 4), (4, 6)]
    assert [shown(ranking, each, 2)[0] for each in (0, 2, 4, 6)] == [[1, 0], [3, 2], [5, 4], [7, 6]]


def test_beyond_all_that_is_shown_there_is_nothing(parts):
    asked = Asked()
    assert shown(Ranking(asked, countable=True), 8, 2) == ([], False) and asked.parts == [(0, 2)]
    assert shown(Ranking(Asked(searched=3), countable=True), 2, 2) == ([2], False)
    assert shown(Ranking(Asked(searched=0), countable=True), 0, 2) == ([], False)


def test_where_photos_are_left_out_none_comes_twice_or_never(parts):
    for least in range(9):
        ranking, found = Ranking(Asked(least=least), countable=False), []
        more = True
        while more:
            page, more = shown(ranking, len(found), 1)
            assert page or not more
            found += page
        assert sorted(found) == list(range(least, 8))


def test_what_another_part_has_shown_does_not_come_again(parts):
    def ask(start, end):
        return Found((Match(None, 0.5, 0.5, content=min(start, 2)), Match(None, 0.5, 0.5, content=end)), searched=9)

    found, _, _ = Ranking(ask, countable=False).part(1, 99)
    assert [match.content for match in found] == [2, 4, 6, 8]
