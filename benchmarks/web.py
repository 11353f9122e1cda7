"""The server under load, on this machine's loopback: throughput, latency, memory and overload, in one run.

    python benchmarks/web.py [--before REVISION] [--photos FOLDER] [--model PAIR] [--requests 400]
                             [--memory-requests 2000]

| compared | what it does |
|---|---|
| in the process | `Library.search` called one after the other, without a server |
| before | the server of another revision of this repository, with the same library and the same questions |
| 1, 8, 32, 64 clients | `POST /api/v1/search`, every sentence another one, so that nothing is answered from memory |
| thumbnails | `GET /api/v1/photos/ID/thumbnail` |
| memory | resident memory of the server along 2,000 requests of all kinds |
| overload | more requests at once than may wait: those beyond get 503 with Retry-After, at once |

Without a folder, drawn scenes; without a model (and none shipped), a random pair of the compact size. Clients and
server share the machine's cores.
"""

import argparse
import asyncio
import itertools
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import psutil

from search import choose_model
from smlstm.data.scenes import compose
from smlstm.search import Library
from smlstm.search.naming import shipped_phrases

CLIENTS = (1, 8, 32, 64)
BURST = 200
Ask = Callable[[httpx.AsyncClient, int], Awaitable[httpx.Response]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--photos", type=Path, default=None, help="a folder of photos (default: drawn scenes)")
    parser.add_argument("--count", type=int, default=300, help="how many scenes to draw")
    parser.add_argument("--model", type=Path, default=None)
    parser.add_argument("--before", metavar="REVISION", default=None, help="a version to compare with, such as HEAD~5")
    parser.add_argument("--requests", type=int, default=400, help="searches for each number of clients")
    parser.add_argument("--memory-requests", type=int, default=2000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _, model = choose_model(options.model, folder)
        photos = options.photos or draw(folder / "photos", options.count)
        library = Library(folder / "library", model=model)
        library.index(photos)
        print(f"{library.stats().photos} photos, {os.cpu_count()} cores")
        in_process(library, options.requests)
        if options.before:
            with checkout(options.before, folder / "before") as source:
                beside(folder / "library", model, source, options.requests)
        with served(folder / "library", model) as (address, process):
            asyncio.run(measure(address, process, options.requests, options.memory_requests))


@contextmanager
def checkout(revision: str, folder: Path) -> Iterator[Path]:
    """The source of another revision."""
    repository = Path(__file__).parents[1]
    git = ["git", "-C", str(repository), "worktree"]
    subprocess.run([*git, "add", "--detach", "--quiet", str(folder), revision], check=True)
    try:
        yield folder / "src"
    finally:
        subprocess.run([*git, "remove", "--force", str(folder)], check=True)


def beside(library: Path, model: Path | None, source: Path, requests: int) -> None:
    """Both versions at the same numbers of clients, in turns, so that what else the machine does hits both alike."""
    with (
        served(library, model, source) as (before, _),
        served(library, model) as (now, _),
    ):
        asyncio.run(compare(before, now, requests))


async def compare(before: str, now: str, requests: int) -> None:
    async with client_of(before) as old, client_of(now) as new:
        waiting = sentences()
        for clients in CLIENTS:
            rates, together = {}, {"before": list[float](), "now": list[float]()}
            seconds = Counter[str]()
            for _ in range(4):
                asked = list(itertools.islice(waiting, requests // 4))
                for name, client in (("before", old), ("now", new)):
                    taken, spent = await load(client, asking(iter(asked)), clients, len(asked))
                    together[name] += taken
                    seconds[name] += spent
            for name, taken in together.items():
                rates[name] = len(taken) / seconds[name]
                tell(f"{name}: search, {clients} clients", taken, seconds[name])
            print(f"{'':28} {rates['now'] / rates['before']:.2f}x of before")


def asking(waiting: Iterator[str]) -> Ask:
    """Ask for the next sentence."""

    async def ask(client: httpx.AsyncClient, _: int) -> httpx.Response:
        return await client.post("/search", json={"sentence": next(waiting)})

    return ask


class Machines(httpx.AsyncBaseTransport):
    """Four machines that ask in turn: a server lets no one take all places to wait in."""

    def __init__(self) -> None:
        limits = httpx.Limits(max_connections=BURST, max_keepalive_connections=BURST)
        self._machines = [
            httpx.AsyncHTTPTransport(limits=limits, local_address=f"127.0.0.{number}") for number in range(1, 5)
        ]
        self._next = itertools.cycle(self._machines)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        return await next(self._next).handle_async_request(request)

    async def aclose(self) -> None:
        for machine in self._machines:
            await machine.aclose()


def client_of(address: str) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=address, transport=Machines(), timeout=120)


def draw(folder: Path, count: int) -> Path:
    folder.mkdir()
    for number, scene in enumerate(compose(1, count, size=224)):
        scene.picture.save(folder / f"{number:05}.png")
    return folder


def sentences() -> Iterator[str]:
    """Sentences that were never asked before, all in the words of the shipped phrases."""
    for first, second in itertools.product(shipped_phrases(), repeat=2):
        yield f"{first} and {second}"


def in_process(library: Library, count: int) -> None:
    asked = itertools.islice(sentences(), 10, 10 + min(count, 100))
    library.search("warm up", k=24)
    taken = []
    for sentence in asked:
        start = time.perf_counter()
        library.search(sentence, k=24)
        taken.append(time.perf_counter() - start)
    tell("in the process, one by one", taken, sum(taken))


def tell(name: str, taken: list[float], seconds: float) -> None:
    order = sorted(taken)
    p95 = order[min(len(order) - 1, int(0.95 * len(order)))]
    rate = f"{len(taken) / seconds:7.1f} requests/s"
    print(f"{name:28} {rate}  p50 {1000 * statistics.median(order):7.1f} ms  p95 {1000 * p95:7.1f} ms")


@contextmanager
def served(library: Path, model: Path | None, source: Path | None = None) -> Iterator[tuple[str, psutil.Process]]:
    """A server, of this version or of the one whose source is given."""
    command = [sys.executable, "-c", "from smlstm.cli import main; main()", "serve", "--port", "0", "--no-open"]
    command += ["--no-index", "--library", str(library), *(["--model", str(model)] if model else [])]
    environment = os.environ | ({"PYTHONPATH": str(source)} if source else {})
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip() + "api/v1", psutil.Process(process.pid)
    finally:
        process.terminate()
        process.wait()


async def measure(address: str, process: psutil.Process, requests: int, memory_requests: int) -> None:
    async with client_of(address) as client:
        waiting = sentences()
        photos = (await client.get("/photos", params={"limit": 100})).json()["photos"]
        search = asking(waiting)

        async def thumbnail(client: httpx.AsyncClient, number: int) -> httpx.Response:
            return await client.get(f"/photos/{photos[number % len(photos)]['id']}/thumbnail")

        async def anything(client: httpx.AsyncClient, number: int) -> httpx.Response:
            if number % 4 == 1:
                return await thumbnail(client, number)
            if number % 4 == 2:
                return await client.get("/library")
            if number % 4 == 3:
                asked = {"photos": [photos[number % len(photos)]["id"]], "sentences": [next(waiting)]}
                return await client.post("/explain", json=asked)
            return await search(client, number)

        for clients in CLIENTS:
            tell(f"search, {clients} clients", *await load(client, search, clients, requests))
        await load(client, thumbnail, 8, len(photos))  # into the server's memory
        tell("thumbnails, 8 clients", *await load(client, thumbnail, 8, requests))
        await memory(client, process, anything, memory_requests)
        await overload(client, search)


async def load(client: httpx.AsyncClient, ask: Ask, clients: int, count: int) -> tuple[list[float], float]:
    """So many clients, each asking again as soon as it is answered; the time of each request, and of all."""
    numbers, taken = iter(range(count)), []

    async def one() -> None:
        for number in numbers:
            start = time.perf_counter()
            (await ask(client, number)).raise_for_status()
            taken.append(time.perf_counter() - start)

    start = time.perf_counter()
    await asyncio.gather(*(one() for _ in range(clients)))
    return taken, time.perf_counter() - start


async def memory(client: httpx.AsyncClient, process: psutil.Process, ask: Ask, count: int) -> None:
    sizes = []
    for _ in range(5):
        await load(client, ask, 8, count // 5)
        sizes.append(process.memory_info().rss / 2**20)
    print(f"memory along {count} requests: {', '.join(f'{size:.0f}' for size in sizes)} MB")


async def overload(client: httpx.AsyncClient, ask: Ask) -> None:
    async def one(number: int) -> tuple[int, bool, float]:
        start = time.perf_counter()
        answer = await ask(client, number)
        return answer.status_code, "retry-after" in answer.headers, time.perf_counter() - start

    found = await asyncio.gather(*(one(number) for number in range(BURST)))
    counts = Counter(status for status, _, _ in found)
    assert set(counts) <= {200, 503} and all(told for status, told, _ in found if status == 503)
    slowest = max(seconds for status, _, seconds in found if status == 200)
    print(f"{BURST} at once: {counts[200]} answered, the last after {slowest:.1f} s; {counts[503]} got 503")
    (await ask(client, 0)).raise_for_status()
    print("and the next one is answered again")


if __name__ == "__main__":
    main()
