"""Many askers of one library, by the Python API and by HTTP: each gets what it would get alone, to the last bit."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor

import httpx
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from smlstm.data.scenes import compose
from smlstm.search import Library
from smlstm.search.lance_table import FILES, Table
from smlstm.search.prepared import PreparedPhotos
from smlstm.search.snapshot import Filter
from smlstm.text.language_model import language_model
from smlstm.web.app import create_app
from smlstm.web.settings import Settings
from tests.search.made import draw
from tests.web.made import serving

THREADS = 8
WORDS = ["a", "red", "dog", "runs", "on", "the", "beach", "two", "men", "with", "bicycles", "umbrella"]
phrases = st.lists(st.sampled_from(WORDS), min_size=1, max_size=24).map(" ".join)
questions = st.fixed_dictionaries(
    {"sentence": phrases, "plus": st.lists(phrases, max_size=2), "minus": st.lists(phrases, max_size=1)}
)
many = st.lists(questions, min_size=4, max_size=10, unique_by=json.dumps)
few = settings(max_examples=4, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """Photos under the shipped model: its language model, its bfloat16 where there is one, its two readers."""
    folder = tmp_path_factory.mktemp("shared")
    draw(folder / "photos", 24, size=96)
    found = Library(folder / "library")
    found.index(folder / "photos")
    return found


def forget(library):
    """As after a start: nothing read, nothing made ready."""
    language_model().forget()
    library.__dict__["prepared"] = PreparedPhotos()


def answer(library, question):
    found = library.search(question["sentence"], plus=question["plus"], minus=question["minus"], k=24, shortlist=16)
    return [(match.path, match.probability, match.similarity, match.scores) for match in found]


@few
@given(asked=many, seed=st.randoms(use_true_random=False))
def test_threads_of_a_program(library, asked, seed):
    forget(library)
    alone = [answer(library, question) for question in asked]
    forget(library)
    order = [place for place in range(len(asked)) for _ in range(THREADS)]
    seed.shuffle(order)
    with ThreadPoolExecutor(THREADS) as pool:
        found = list(pool.map(lambda place: answer(library, asked[place]), order))
    assert found == [alone[place] for place in order]


@few
@given(asked=many, seed=st.randoms(use_true_random=False))
def test_clients_of_a_server(library, asked, seed):
    photos = [f"{content & (1 << 64) - 1:016x}" for content in library.snapshot().contents[:3].tolist()]
    requests = [("search", question) for question in asked]
    for question in asked[:3]:
        pairs = {"photos": photos, "sentences": [question["sentence"], *question["plus"]]}
        requests += [("score", pairs), ("explain", pairs), ("annotate", {**pairs, "k": 1})]

    def ask_all(order, threads):
        # Another server each time: what one has answered it would not compute again.
        forget(library)
        with serving(create_app(library, Settings())) as address, httpx.Client(timeout=120) as client:

            def ask(place):
                path, body = requests[place]
                return client.post(f"{address}/api/v1/{path}", json=body).raise_for_status().json()

            with ThreadPoolExecutor(threads) as pool:
                return list(pool.map(ask, order))

    alone = ask_all(range(len(requests)), 1)
    order = [place for place in range(len(requests)) for _ in range(2)]
    seed.shuffle(order)
    assert ask_all(order, THREADS) == [alone[place] for place in order]


def test_photos_of_several_threads_through_the_cnn(library):
    """The backbone's runtime is shared too."""
    reader = library.photo_reader
    pictures = [reader.extractor.backbone.preprocess(scene.picture) for scene in compose(5, 12, size=96)]
    alone = [reader.read_pixels([picture]) for picture in pictures]
    with ThreadPoolExecutor(THREADS) as pool:
        found = list(pool.map(lambda place: reader.read_pixels([pictures[place]]), list(range(12)) * 4))
    for place, features in zip(list(range(12)) * 4, found, strict=True):
        assert all(np.array_equal(one, other) for one, other in zip(features, alone[place], strict=True))


def test_a_filter_of_folders_is_shared_without_harm(library):
    snapshot = library.snapshot()
    filters = [Filter(folders=(f"/nowhere/{number}",)) for number in range(100)] + [Filter()]
    with ThreadPoolExecutor(THREADS) as pool:
        found = list(pool.map(lambda chosen: int(snapshot.files(chosen).sum()), filters * 4))
    assert found == ([0] * 100 + [24]) * 4


def test_tables_are_read_while_they_are_written(tmp_path):
    """Lance refuses to read what is being changed: no two threads may share a hand on a version that moves."""
    table = Table(tmp_path / "files.lance", FILES, 1 << 20)
    row = {"path": b"x", "size": 1, "modified": 1, "content": 1, "reason": None}
    stop, counts = threading.Event(), []

    def read(_):
        seen = []
        while not stop.is_set():
            seen.append(len(table.read(["file"])))
        return seen

    with ThreadPoolExecutor(THREADS) as pool:
        readers = [pool.submit(read, number) for number in range(THREADS - 1)]
        try:
            for number in range(30):
                table.append(pa.Table.from_pylist([{"file": number, **row}], FILES))
                counts.append(len(table))
        finally:
            stop.set()
    assert counts == list(range(1, 31))
    for reader in readers:
        seen = reader.result()
        assert seen == sorted(seen) and seen[-1] <= 30
