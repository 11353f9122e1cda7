"""The examples of docs/search.md do what they say."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.command_line import smlstm
from tests.search.made import draw, make_pair

PAGE = Path(__file__).parents[1] / "docs" / "search.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with photos and sentences, whose library and model are the ones that are taken by themselves."""
    draw(tmp_path / "photos" / "family", 2, seed=1)
    draw(tmp_path / "photos", 3)
    (tmp_path / "mine.txt").write_text("a dog\na red circle\n")
    monkeypatch.setenv("SMLSTM_MODEL", str(make_pair(tmp_path / "model")))
    monkeypatch.setenv("SMLSTM_LIBRARY", str(tmp_path / "library"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.slow
def test_the_commands_run(place):
    lines = [line for block in blocks("sh") for line in block.splitlines()]
    assert len(lines) > 20
    bin_folder = place / "bin"
    bin_folder.mkdir()
    script = bin_folder / "smlstm"
    script.write_text(f'#!/bin/sh\nexec {sys.executable} -c "from smlstm.cli import main; main()" "$@"\n')
    script.chmod(0o755)
    environment = os.environ | {"PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}"}
    for line in lines:
        if "|" in line:
            command = ["bash", "-o", "pipefail", "-c", line]
            found = subprocess.run(command, check=False, capture_output=True, text=True, env=environment)
        else:
            found = smlstm(*shlex.split(line, comments=True)[1:])
        # Drawings have no date of 2023 and match little: nothing found is an answer too, where something is asked for.
        asked = " --since " in line or " --min-score " in line
        assert found.returncode in ((0, 5) if asked else (0,)), f"{line}\n{found.stderr}"
        if line.startswith("smlstm library forget"):
            assert smlstm("index", "photos").returncode == 0  # the examples that follow need it
    assert (place / "bikes.html").is_file() and (place / "named.html").is_file()


def test_the_program_runs(place):
    (code,) = blocks("python")
    found = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    assert found.stdout.startswith("5 new, 0 skipped\n")
    assert (place / "seen.html").is_file()


def test_the_number_of_phrases_is_right():
    from smlstm.search.naming import shipped_phrases  # noqa: PLC0415

    assert f"from {len(shipped_phrases())} phrases" in PAGE.read_text(encoding="utf-8")
