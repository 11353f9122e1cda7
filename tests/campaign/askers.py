"""Many who ask at once: their answers are, bit by bit, those of one who asks alone."""

import random
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import httpx

from smlstm.matching import ImageFeatures
from smlstm.search import Library
from smlstm.search.naming import name_photo
from tests.campaign import made
from tests.campaign.libraries import indexed
from tests.campaign.servers import NotStarted, photo_ids, questions, sentence_list, served
from tests.campaign.verdict import Verdict
from tests.campaign.workplace import Workplace

THREADS = 8
Question = TypeVar("Question")


def askers(rng: random.Random, place: Workplace) -> Verdict:
    """Threads that search, explain and name through the Python API."""
    subject = indexed(place, 0.5, rng)
    _ask_library(rng, subject.opened, place.verdict, 40)
    return place.verdict


def askers_shipped(rng: random.Random, place: Workplace) -> Verdict:
    """The same with the shipped model."""
    library = place.base / "shipped-library"
    photos = made.shipped_photos(place.base)
    Library(library).index(photos)
    _ask_library(rng, lambda: Library(library), place.verdict, 16)
    return place.verdict


def askers_http(rng: random.Random, place: Workplace) -> Verdict:
    """Clients of one server, compared with one client of another one: a server keeps answers."""
    subject = indexed(place, 0.5, rng)
    return _ask_servers(rng, place, ("--no-index", *subject.options, "--runtime", "torch"), 40)


def askers_http_shipped(rng: random.Random, place: Workplace) -> Verdict:
    """The same with the shipped model."""
    library = place.base / "shipped-library"
    Library(library).index(made.shipped_photos(place.base))
    return _ask_servers(rng, place, ("--no-index", "--library", library), 20)


def _ask_servers(rng: random.Random, place: Workplace, options: Sequence[object], count: int) -> Verdict:
    try:
        with served(place, *options) as server, httpx.Client() as client:
            asked = questions(rng, photo_ids(server), count)
            alone = [server.ask(each, client) for each in asked]
            server.end()
        with served(place, *options) as server, httpx.Client() as client:
            together(rng, asked, alone, lambda each: server.ask(each, client), place.verdict)
            server.end()
    except NotStarted:
        pass
    return place.verdict


def _ask_library(rng: random.Random, opened: Callable[[], Library], verdict: Verdict, count: int) -> None:
    library = opened()
    photos = [str(match.path) for match in library.search("a star", k=50)]
    asked = [(rng.choice(("search", "search", "similar", "explain", "name")), number) for number in range(count)]
    choices = [(sentence_list(rng, 3), rng.choice(photos)) for _ in range(count)]

    def ask(library: Library, question: tuple[str, int]) -> Any:
        kind, number = question
        sentences, photo = choices[number]
        match kind:
            case "search":
                return library.search(sentences[0], plus=sentences[1:], k=50)
            case "similar":
                return library.search(sentences[0], similar=Path(photo), k=20)
            case "explain":
                seen = library.explain(library.search(sentences[0], k=2), sentences[0])
                return [(each.words, *(value.tobytes() for value in (each.regions, each.scores))) for each in seen]
            case _:
                features = ImageFeatures.from_numpy(*library.photo_reader.read([photo]))
                return name_photo(library.pair, features, sentences)

    alone = [ask(library, each) for each in asked]
    busy = opened()
    busy.photo_reader.read(photos[:1])  # loaded once; that several threads load it at the same time is not promised
    together(rng, asked, alone, lambda each: ask(busy, each), verdict)


def together(
    rng: random.Random,
    asked: Sequence[Question],
    alone: Sequence[Any],
    ask: Callable[[Question], Any],
    verdict: Verdict,
) -> None:
    """Let every thread ask every question in an order of its own, and compare with the answers to one alone."""
    orders = [rng.sample(range(len(asked)), len(asked)) for _ in range(THREADS)]
    wrong: list[int] = []
    failed: list[str] = []
    start = threading.Barrier(THREADS)

    def work(order: Sequence[int]) -> None:
        start.wait()
        for place in order:
            try:
                answer = ask(asked[place])
            except Exception as error:
                failed.append(f"{asked[place]}: {type(error).__name__}: {error}"[:300])
                continue
            if answer != alone[place]:
                wrong.append(place)

    workers = [threading.Thread(target=work, args=(order,), daemon=True) for order in orders]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if failed:
        verdict.add("traceback", f"{len(failed)} questions failed: {failed[0]}", count=len(failed))
    if wrong:
        total = THREADS * len(asked)
        text = f"{len(wrong)} of {total} answers differ from those to one asker alone, such as {asked[wrong[0]]}"
        verdict.add("wrong", text[:500], count=len(wrong))
