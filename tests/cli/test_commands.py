"""Which command files are read: the one that is asked for, so that it answers soon; else all, to help."""

import subprocess
import sys

import pytest

CODE = """
import atexit, sys
atexit.register(lambda: print("read:", *sorted(name for name in sys.modules if name.startswith("smlstm.cli."))))
from smlstm.cli import main
main()
"""


def run(*arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-c", CODE, *arguments], capture_output=True, text=True, check=False)


def test_only_the_command_that_is_asked_for_is_read():
    done = run("runs", "--help")
    assert done.returncode == 0
    assert "smlstm.cli.runs" in done.stdout
    assert "smlstm.cli.serve" not in done.stdout


@pytest.mark.parametrize("asked", ["serch", "thumbnails"])
def test_what_is_no_command_is_told_from_all(asked):
    done = run(asked)
    assert done.returncode == 2
    assert f"No such command '{asked}'" in done.stderr
    assert "smlstm.cli.serve" in done.stdout


def test_help_names_all_commands():
    done = run("--help")
    assert all(name in done.stdout for name in ("search", "serve", "library", "train", "reproduce"))
