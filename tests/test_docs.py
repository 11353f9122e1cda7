"""Every Python block of README and docs runs as it stands, and every command in them exists with its options.

The blocks of a page run one after the other, in one namespace, as a reader would run them. The programs of docs/web.md
need a server: tests/web/test_docs.py runs them.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from smlstm.cli import _register_commands, app
from smlstm.model import SMLSTM
from smlstm.pair import load_pair
from smlstm.search.naming import shipped_phrases
from tests.command_line import smlstm
from tests.search.made import draw, make_pair

ROOT = Path(__file__).parents[1]
SEARCH = ROOT / "docs" / "search.md"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


_register_commands()
COMMANDS = typer.main.get_command(app)
PROGRAMS = [page for page in PAGES if blocks(page, "python") and page.name != "web.md"]


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


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """What the programs name and do not make: photos, a dataset, its features, models, matrices of scores."""
    folder = tmp_path_factory.mktemp("made")
    draw(folder / "Photos", 3)
    draw(folder, 1)[0].rename(folder / "dog.jpg")
    dataset = folder / "flickr8k"
    names = [path.name for path in draw(dataset / "Images", 6)]
    captions = [f"{name}#{number}\ta dog runs on the beach\n" for name in names for number in range(2)]
    (dataset / "Flickr8k.token.txt").write_text("".join(captions))
    for split, part in {"train": names[:2], "dev": names[2:4], "test": names[4:]}.items():
        (dataset / f"Flickr_8k.{split}Images.txt").write_text("\n".join(part))

    pair = load_pair(make_pair(folder / "pair"))
    runs, store = folder / "runs", folder / "stores" / "flickr8k"
    pair.shortlist.save(runs / "mnlm" / "model")
    for name, changes in {"full": {"global_score": True}, "att": {"variant": "att"}, "mine": {}}.items():
        config = pair.reranker.config.model_copy(update=changes)
        SMLSTM(config, pair.reranker.vocabulary).save(runs / name / "model")
    run("extract", dataset, "--out", store, "--backbone", "efficientnet-lite0", "--grid", 2)
    run("evaluate", runs / "mnlm", runs / "full", "--data", dataset, "--features", store, "--save", folder / "m")
    return folder


@pytest.fixture
def workshop(place, made, monkeypatch):
    """A folder, which is also home, where a program finds all that it names."""
    shutil.copytree(made, place, dirs_exist_ok=True)
    monkeypatch.setenv("HOME", str(place))
    return place


def run(*arguments: object) -> None:
    found = smlstm(*arguments)
    assert found.returncode == 0, found.stderr


PRINTED = {
    "README.md": r"\d+% \S+/Photos/00\d.png\n",
    "data.md": r"\{'train': 2, 'dev': 2, 'test': 2\}\n000.png \S+ \('a dog runs on the beach',",
    "evaluation.md": r"\d+\.\d+\n",
    "explain.md": r"\(3, 2, 2\)\n\(3, 480, 640\)\n\(3, 5\)\n",
    "model.md": "",
    "pretrained.md": r"sm-lstm \d+\n",
    "scoring.md": r"ShortlistRecall\(",
    "search.md": "5 new, 0 skipped\n",
}


@pytest.mark.parametrize("page", PROGRAMS, ids=lambda page: page.name)
def test_the_programs_run(page, workshop, capsys):
    names: dict[str, object] = {}
    for block in blocks(page, "python"):
        exec(compile(block, str(page), "exec"), names)
    assert re.match(PRINTED[page.name], capsys.readouterr().out)
    for file in re.findall(r'"(\S+\.(?:html|npy))"', "".join(blocks(page, "python"))):
        assert (workshop / file).is_file()


@pytest.mark.slow
def test_the_commands_of_search_run(place):
    lines = [line for block in blocks(SEARCH, "sh") for line in block.splitlines()]
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


def commands(page: Path) -> list[list[str]]:
    """What stands behind `smlstm` in the lines of code blocks and in code within a sentence, word by word."""
    text = page.read_text(encoding="utf-8").replace("\\\n", " ")
    lines = re.findall(r"^(?: {4})?smlstm (.*?)(?: [#|] .*)?$", text, re.MULTILINE)
    spans = re.findall(r"(?<!`)`smlstm ([^`]+)`(?!`)", text)
    return [line.replace("[", " ").replace("]", " ").split() for line in lines + spans]


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CONTRIBUTING.md"], ids=lambda page: page.name)
def test_commands_and_their_options_exist(page):
    for words in commands(page):
        command = COMMANDS
        while words and words[0] in getattr(command, "commands", {}):
            command = command.commands[words.pop(0)]
        assert command is not COMMANDS or words[0].startswith("-") or words[0].isupper(), f"smlstm {words[0]}"
        known = {"--help", "-h", *(name for each in command.params for name in [*each.opts, *each.secondary_opts])}
        unknown = {word for word in words if re.match(r"--?[a-z]", word)} - known
        assert not unknown, f"smlstm {command.name} has no {unknown}"


def rows(page: Path, heading: str) -> list[str]:
    """The first cells of a table below a heading of that page."""
    section = page.read_text(encoding="utf-8").split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return re.findall(r"^\| `smlstm[ .](\S+).*?` \|", section, re.MULTILINE)


def test_the_tables_of_commands_and_packages_are_whole():
    page = ROOT / "docs" / "README.md"
    assert set(rows(page, "Commands")) == set(COMMANDS.commands)
    folders = {path.name for path in (ROOT / "src" / "smlstm").iterdir() if path.is_dir()} - {"__pycache__"}
    assert {name.rstrip("`") for name in rows(page, "Packages")} == folders


def test_every_page_is_listed_and_every_link_leads_somewhere():
    listed = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    assert all(f"({page.name})" in listed for page in PAGES if page.name != "README.md")
    for page in [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]:
        for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            assert (page.parent / link).exists(), f"{page.name}: {link}"


def test_the_number_of_phrases_is_right():
    assert f"from {len(shipped_phrases())} phrases" in SEARCH.read_text(encoding="utf-8")
