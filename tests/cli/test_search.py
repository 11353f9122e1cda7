import json
import os
import re
import stat
import sys
import time
from pathlib import Path

import pytest
from tests.command_line import smlstm, smlstm_process
from tests.search.made import draw, jpeg, make_pair

from smlstm.cli.thumbnails import encode, protocol, thumbnail_writer
from smlstm.data.lock import WriterLock
from smlstm.search.dates import first_moment, moment_after

RED = "a red circle above a blue square"


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return make_pair(tmp_path_factory.mktemp("model"))


@pytest.fixture
def where(tmp_path, model):
    draw(tmp_path / "photos", 5)
    return {"photos": tmp_path / "photos", "options": ("--library", tmp_path / "library", "--model", model)}


def test_search_indexes_first_prints_the_best_first_and_a_second_time_does_nothing(where):
    first = smlstm("search", RED, where["photos"], "--runtime", "torch", *where["options"])
    assert first.returncode == 0, first.stderr
    lines = [re.fullmatch(r" *([\d.]+)%  (.+)", line) for line in first.stdout.splitlines()]
    shares = [float(line[1]) for line in lines]
    assert {line[2] for line in lines} == {str(path) for path in where["photos"].iterdir()}
    assert shares == sorted(shares, reverse=True)
    again = smlstm("search", RED, *where["options"])
    assert again.stdout == first.stdout and again.stderr == ""


def test_paths_alone_are_what_a_pipe_wants(where):
    smlstm("index", where["photos"], "--runtime", "torch", *where["options"])
    found = smlstm("search", RED, "-k", 2, "--paths", *where["options"])
    paths = found.stdout.splitlines()
    assert len(paths) == 2 and all(Path(path).is_file() for path in paths)
    assert smlstm("search", RED, "-k", 2, "-0", *where["options"]).stdout == "".join(f"{path}\0" for path in paths)


def test_names_that_are_not_unicode_go_through_a_pipe(where):
    name = os.fsdecode(b"caf\xe9.png")
    (where["photos"] / "000.png").rename(where["photos"] / name)
    smlstm("index", where["photos"], "--runtime", "torch", *where["options"])
    found = smlstm_process("search", RED, "--paths", *where["options"], before=["env", "LC_ALL=C.UTF-8", "sh", "-c",
                           '"$@" | od -An -c | tr -d " \\n"', "sh"])  # fmt: skip
    assert "caf351.png" in found.stdout
    assert "caf\\udce9.png" in smlstm("search", RED, *where["options"]).stdout


def test_json_has_everything(where):
    (where["photos"] / "dated.jpg").write_bytes(jpeg("2024:05:01 10:00:00"))
    smlstm("index", where["photos"], "--runtime", "torch", *where["options"])
    found = json.loads(smlstm("search", "a red zebra", "--json", "--since", "2024-05", "--until", "2024-05",
                              *where["options"]).stdout)  # fmt: skip
    assert found["searched"] == 1 and found["unknown_words"] == ["zebra"]
    (match,) = found["matches"]
    assert match["path"] == str(where["photos"] / "dated.jpg") and match["taken"] == "2024-05-01T10:00:00"
    assert 0 < match["probability"] < 1 and (match["width"], match["height"]) == (60, 40) and match["copies"] == []


def test_a_misspelt_word_is_said(where):
    smlstm("index", where["photos"], "--runtime", "torch", *where["options"])
    found = smlstm("search", "a red cirlce", *where["options"])
    assert 'read "cirlce" as "circle"' in found.stderr and "not learned" not in found.stderr


def test_nothing_found_has_a_code_of_its_own(where):
    found = smlstm("search", RED, where["photos"], "--min-score", 1, "--runtime", "torch", *where["options"])
    assert found.returncode == 5 and found.stdout == ""
    assert "no photo matches with at least 1: 5 were searched" in found.stderr


def test_no_index_searches_what_is_there(where):
    smlstm("index", where["photos"], "--runtime", "torch", *where["options"])
    draw(where["photos"] / "new", 1, seed=5)
    assert len(smlstm("search", RED, "--no-index", *where["options"]).stdout.splitlines()) == 5
    assert len(smlstm("search", RED, "--runtime", "torch", *where["options"]).stdout.splitlines()) == 6


def test_while_another_process_indexes_what_is_there_is_searched(where, tmp_path):
    smlstm("index", where["photos"], "--runtime", "torch", *where["options"])
    lock = WriterLock(tmp_path / "library" / "lock")
    try:
        found = smlstm_process("search", RED, *where["options"])
    finally:
        lock.release()
    assert found.returncode == 0 and len(found.stdout.splitlines()) == 5
    assert f"is being written by process {os.getpid()}" in found.stderr and "searching what is there" in found.stderr


def test_similar_photos(where):
    smlstm("index", where["photos"], "--runtime", "torch", *where["options"])
    found = smlstm("search", "--similar", where["photos"] / "001.png", where["photos"], *where["options"])
    assert found.stdout.splitlines()[0].endswith("001.png") and found.stdout.split()[0] == "1.000"


def test_explain_and_open(where, tmp_path, monkeypatch):
    smlstm("index", where["photos"], "--runtime", "torch", *where["options"])
    opener = tmp_path / "bin" / "xdg-open"
    opener.parent.mkdir()
    opener.write_text(f'#!/bin/sh\necho "$1" > {tmp_path}/opened\n')
    opener.chmod(opener.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(opener.parent), prepend=os.pathsep)
    page = tmp_path / "seen.html"
    found = smlstm("search", RED, "-k", 2, "--explain", page, *where["options"])
    assert found.returncode == 0 and f"written: {page}" in found.stderr
    assert page.read_text().count("<h2>") == 2
    if sys.platform == "linux":
        monkeypatch.setenv("DISPLAY", ":0")
        smlstm("search", RED, "-k", 1, "--open", "--explain", page, *where["options"])
        for _ in range(1000):  # it is opened by a process that nobody waits for
            if (tmp_path / "opened").exists() and (tmp_path / "opened").read_text():
                break
            time.sleep(0.01)
        assert (tmp_path / "opened").read_text().strip() == str(page)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["search"], 3, "nothing is asked for"),
        (["search", "..."], 3, "has no words"),
        (["search", "a dog", "missing-folder"], 3, "there is no folder"),
        (["search", "a dog", "--since", "May"], 3, "is not a date"),
        (["search", "a dog", "--explain", "seen.txt"], 3, "must end in"),
        (["search", "a dog", "-k", "0"], 2, "-k"),
        (["search", "--similar", "missing.jpg"], 3, "there is no such file"),
        (["index", "missing-folder"], 3, "there is no folder"),
    ],
)
def test_what_cannot_be_done_is_a_sentence(where, arguments, code, message):
    smlstm("index", where["photos"], "--runtime", "torch", *where["options"])
    found = smlstm(*arguments, *where["options"])
    assert found.returncode == code and found.stdout == "" and "Traceback" not in found.stderr
    assert message in re.sub(r"[\s│]+", " ", found.stderr)


def test_an_empty_library_says_how_to_fill_it(where):
    for command in (("search", "a dog"), ("index",)):
        found = smlstm(*command, *where["options"])
        assert found.returncode == 3 and "smlstm index FOLDER" in found.stderr


def test_without_a_shipped_model_one_must_be_given(where, tmp_path, monkeypatch):
    monkeypatch.setattr("smlstm.pair.shipped.FOLDER", tmp_path)
    found = smlstm("search", "a dog", where["photos"], "--library", tmp_path / "library")
    assert found.returncode == 3 and "give one with --model FOLDER" in found.stderr


def test_index_tells_what_it_did_and_names_what_it_skipped(where, tmp_path):
    (where["photos"] / "text.jpg").write_text("hello")
    found = smlstm("index", where["photos"], "--runtime", "torch", *where["options"])
    assert re.match(r"5 new, 1 skipped, 0 unchanged; 5 extracted in [\d.]+ s", found.stdout)
    assert f"skipped {where['photos'] / 'text.jpg'}: its content is not" in found.stderr
    assert f"library: {tmp_path / 'library'}" in found.stderr
    again = json.loads(smlstm("index", "--json", *where["options"]).stdout)
    assert again["unchanged"] == 6 and again["extracted"] == 0 and again["library"] == str(tmp_path / "library")


def test_the_library_can_be_chosen_by_the_environment(where, tmp_path, monkeypatch):
    monkeypatch.setenv("SMLSTM_LIBRARY", str(tmp_path / "by environment"))
    found = smlstm("index", where["photos"], "--runtime", "torch", *where["options"][2:])
    assert f"library: {tmp_path / 'by environment'}" in found.stderr and (tmp_path / "by environment").is_dir()


def test_dates_are_whole_years_months_and_days():
    assert str(first_moment("2024")) == "2024-01-01 00:00:00" and str(moment_after("2024")) == "2025-01-01 00:00:00"
    assert str(moment_after("2024-12")) == "2025-01-01 00:00:00"
    assert str(moment_after("2024-02-28")) == "2024-02-29 00:00:00"


def test_terminals_that_show_pictures_are_recognised(monkeypatch, capsys):
    assert protocol({"TERM": "xterm-kitty"}) == "kitty" and protocol({"TERM_PROGRAM": "iTerm.app"}) == "iterm2"
    assert protocol({"TERM": "xterm-256color"}) is None
    assert protocol({"TERM": "tmux-256color", "KITTY_WINDOW_ID": "1"}) is None
    assert thumbnail_writer(None) is None  # stdout is no terminal here
    long = encode(b"x" * 10_000, "kitty")
    assert long.startswith("\033_Ga=T,f=100") and long.count("m=1;") == 3 and long.count("m=0;") == 1
    assert encode(b"x", "iterm2").startswith("\033]1337;File=inline=1;size=1;")


def test_thumbnails_can_be_asked_for(where):
    smlstm("index", where["photos"], "--runtime", "torch", *where["options"])
    assert smlstm("search", RED, "-k", 2, "--thumbnails", *where["options"]).stdout.count("\033_Ga=T") == 2


def test_completion_knows_the_commands():
    found = smlstm_process(before=["env", "_SMLSTM_COMPLETE=complete_bash", "COMP_WORDS=smlstm ", "COMP_CWORD=1"])
    assert {"index", "search", "annotate", "score", "library"} <= set(found.stdout.split())


@pytest.mark.parametrize("command", ["index", "search", "annotate", "score"])
def test_help_has_examples(command):
    assert f"smlstm {command} " in smlstm(command, "--help").stdout.partition("Examples:")[2]
