"""Ctrl-C, and Ctrl-C again."""

import signal
import subprocess
import sys
import time

import pytest
from tests.search.made import draw, make_pair

STUCK = """
import signal, sys, time
from pathlib import Path

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell has jobs in the background ignore it
from smlstm.cli import main
from smlstm.vision.extract import Extractor

mark = Path(sys.argv.pop(1))

def read(self, key, path):
    mark.touch()
    time.sleep(1000)

Extractor._read = read
main()
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return make_pair(tmp_path_factory.mktemp("model"))


@pytest.mark.parametrize(
    ("command", "way", "code"),
    [("index", signal.SIGINT, 130), ("serve", signal.SIGINT, 130), ("serve", signal.SIGTERM, 143)],
)
def test_a_second_signal_ends_at_once_whatever_a_photo_does(command, way, code, model, tmp_path):
    draw(tmp_path / "photos", 40, size=32)  # more than a batch, so that several threads are at work
    options = ["--library", tmp_path / "library", "--model", model, "--runtime", "torch"]
    options += ["--port", "0", "--no-open"] if command == "serve" else []
    process = subprocess.Popen(
        [sys.executable, "-c", STUCK, tmp_path / "stuck", command, tmp_path / "photos", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        give_up = time.monotonic() + 120
        while not (tmp_path / "stuck").exists():
            assert process.poll() is None and time.monotonic() < give_up
            time.sleep(0.05)
        process.send_signal(way)
        time.sleep(1)
        assert process.poll() is None  # it waits for the photo
        process.send_signal(way)
        process.communicate(timeout=60)
        assert process.returncode == code
    finally:
        process.kill()
        process.wait()
