"""A library that can be read and not written: on a read-only medium, or another's."""

import json
import subprocess
import sys
from contextlib import contextmanager

import httpx
import pytest
from tests.command_line import smlstm, smlstm_process
from tests.permissions import bounded_by_permissions
from tests.search.made import draw, make_pair
from tests.search.test_migration import write_as_format_1

from smlstm.pair import load_pair
from smlstm.search import Library

RED = "a red circle above a blue square"


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return make_pair(tmp_path_factory.mktemp("model"))


@pytest.fixture
def options(tmp_path, model):
    draw(tmp_path / "photos", 3)
    options = ("--library", tmp_path / "library", "--model", model, "--runtime", "torch")
    assert smlstm("index", tmp_path / "photos", *options).returncode == 0
    return options


@contextmanager
def read_only(folder):
    """Nothing in a folder can be written; afterwards it is as it was."""
    everything = [folder, *folder.rglob("*")]
    modes = {path: path.stat().st_mode for path in everything}
    for path, mode in modes.items():
        path.chmod(mode & ~0o222)
    try:
        yield {path: path.stat().st_mtime_ns for path in everything}
    finally:
        for path, mode in modes.items():
            path.chmod(mode)


def test_search_answers_and_says_that_the_library_was_not_brought_in_step(options, tmp_path):
    draw(tmp_path / "photos" / "new", 1, seed=9)
    library = tmp_path / "library"
    with read_only(library) as before:
        found = smlstm_process("search", RED, tmp_path / "photos", *options, before=bounded_by_permissions())
        assert {path: path.stat().st_mtime_ns for path in before} == before
    assert found.returncode == 0 and len(found.stdout.splitlines()) == 3, found.stderr
    note = f"the library in {library} cannot be written (Permission denied); searching what is there\n"
    assert found.stderr == note
    assert len(smlstm("search", RED, *options).stdout.splitlines()) == 4  # and as before when it can be


def test_where_there_is_no_library_and_none_can_be_made_search_fails(model, tmp_path):
    draw(tmp_path / "photos", 1)
    (tmp_path / "closed").mkdir()
    options = ("--library", tmp_path / "closed" / "library", "--model", model)
    with read_only(tmp_path / "closed"):
        found = smlstm_process("search", RED, tmp_path / "photos", *options, before=bounded_by_permissions())
    assert found.returncode == 1 and "cannot be written" in found.stderr and "searching" not in found.stderr


def test_a_library_of_an_older_format_is_answered_from(options, model, tmp_path):
    library = Library(tmp_path / "library", model=load_pair(model), runtime="torch")
    write_as_format_1(library)
    with read_only(library.folder):
        found = smlstm_process("search", RED, *options, before=bounded_by_permissions())
    assert found.returncode == 0 and len(found.stdout.splitlines()) == 3, found.stderr
    assert (library.folder / f"photos-{library.pair.digest[:16]}.lance").exists()


_FROM_PYTHON = """
import sys
from smlstm import Library
from smlstm.search.location import ReadOnlyLibrary
library = Library(sys.argv[1], model=sys.argv[2], runtime="torch")
print(len(library.search("a red circle")))
try:
    library.index()
except ReadOnlyLibrary as error:
    print(error)
"""


def test_python_searches_it(options, model, tmp_path):
    command = [*bounded_by_permissions(), sys.executable, "-c", _FROM_PYTHON, tmp_path / "library", model]
    with read_only(tmp_path / "library"):
        found = subprocess.run(command, check=False, capture_output=True, text=True)
    count, told = found.stdout.splitlines()
    assert count == "3" and "cannot be written" in told, found.stderr


def test_serve_shows_it_and_tells_why_indexing_ended(options, tmp_path):
    command = [sys.executable, "-c", "from smlstm.cli import main; main()", "serve", "--port", "0", "--no-open"]
    with (
        read_only(tmp_path / "library"),
        subprocess.Popen(
            [*bounded_by_permissions(), *command, *map(str, options)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process,
    ):
        try:
            address = process.stdout.readline().strip()
            found = httpx.post(f"{address}api/v1/search", json={"sentence": RED}, timeout=60).json()
            state = httpx.get(f"{address}api/v1/library", timeout=60).json()
            while state["indexing"]["running"]:
                state = httpx.get(f"{address}api/v1/library", timeout=60).json()
        finally:
            process.terminate()
    assert len(found["photos"]) == state["photos"] == 3
    assert "cannot be written" in json.dumps(state["indexing"])
