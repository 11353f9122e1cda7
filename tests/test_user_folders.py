"""Libraries and caches must stay where earlier versions put them, on every system."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from smlstm.search.location import library_folder
from smlstm.user_folders import NoHome, cache_folder, data_folder

CODE = """
import pathlib, stat, sys
sys.platform, sys.modules["ctypes"] = sys.argv[1], None  # so that nobody asks a Windows that is not there
from smlstm import user_folders
print(user_folders.data_folder(), user_folders.cache_folder(), sep="\\n")
"""
NAMES = ("XDG_DATA_HOME", "XDG_CACHE_HOME", "LOCALAPPDATA", "SMLSTM_CACHE", "SMLSTM_LIBRARY")


def folders(system: str, home: Path, **environment: Path) -> list[str]:
    """The data and the cache folder, below a home; platformdirs decides for a system when it is imported."""
    clean = {name: value for name, value in os.environ.items() if name not in NAMES}
    given = {name: str(value) for name, value in environment.items()}
    done = subprocess.run(
        [sys.executable, "-c", CODE, system],
        env={**clean, "HOME": str(home), **given},
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    return [os.path.relpath(line, home) for line in done.stdout.splitlines()]


def test_linux_follows_xdg(tmp_path):
    assert folders("linux", tmp_path) == [".local/share/smlstm", ".cache/smlstm"]
    chosen = {"XDG_DATA_HOME": tmp_path / "d", "XDG_CACHE_HOME": tmp_path / "c"}
    assert folders("linux", tmp_path, **chosen) == ["d/smlstm", "c/smlstm"]


def test_macs_have_their_own_custom(tmp_path):
    assert folders("darwin", tmp_path) == ["Library/Application Support/smlstm", "Library/Caches/smlstm"]


def test_windows_has_one_folder_for_both(tmp_path):
    assert folders("win32", tmp_path, LOCALAPPDATA=tmp_path / "Local") == ["Local/smlstm", "Local/smlstm"]


def test_on_a_mac_what_an_earlier_version_left_stays_in_use(tmp_path):
    old = ["Library/Application Support/smlstm", "Library/Caches/smlstm"]
    elsewhere = {"XDG_DATA_HOME": tmp_path / "d", "XDG_CACHE_HOME": tmp_path / "c"}
    for each in old:
        (tmp_path / each).mkdir(parents=True)
    assert folders("darwin", tmp_path, **elsewhere) == old


def test_on_windows_what_an_earlier_version_left_stays_in_use(tmp_path, monkeypatch):
    monkeypatch.setattr("smlstm.user_folders.user_data_path", lambda *_, **__: tmp_path / "Moved" / "smlstm")
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "Local"))
    monkeypatch.setattr(sys, "platform", "win32")
    assert data_folder() == tmp_path / "Moved" / "smlstm"
    (tmp_path / "Local" / "smlstm").mkdir(parents=True)
    assert data_folder() == tmp_path / "Local" / "smlstm"


@pytest.mark.skipif(sys.platform == "win32", reason="asks the system")
def test_without_a_home_the_sentence_says_what_to_set(monkeypatch):
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("os.path.expanduser", lambda path: path)
    with pytest.raises(NoHome, match="no home folder: name a folder with SMLSTM_LIBRARY"):
        library_folder()
    with pytest.raises(NoHome, match="SMLSTM_CACHE"):
        cache_folder()
