import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

FILE = Path(__file__).parents[2] / "benchmarks" / "extraction.py"


@pytest.fixture
def benchmark(monkeypatch):
    monkeypatch.syspath_prepend(FILE.parent)
    spec = importlib.util.spec_from_file_location("extraction_benchmark", FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def case(benchmark, speeds: list[float]):
    made = object.__new__(benchmark.Case)
    made.rounds = [{"photos_per_second": speed} for speed in speeds]
    return made


def test_a_busy_moment_decides_nothing(benchmark):
    mine, plain = case(benchmark, [20.0, 2.0, 22.0]), case(benchmark, [4.0, 0.4, 1.0])
    assert mine.median("photos_per_second") == 20.0
    assert mine.times(plain) == pytest.approx(5.0)


def test_goals_are_met_or_missed(benchmark):
    assert benchmark.verdict("of eager", 5.2, 5.0) == "goal: of eager at least 5x, measured 5.20x: met"
    assert benchmark.verdict("of CLIP", 1.4, 1.5) == "goal: of CLIP at least 1.5x, measured 1.40x: MISSED"


def test_eight_bits_are_compared_with_float32_where_they_are_there(benchmark, real_photos):
    assert benchmark.has_eight_bits("lite2:2")
    assert not benchmark.has_eight_bits("lite0:2")
    assert all(0 < error < 0.2 for error in benchmark.error_of_eight_bits("lite2:2", real_photos[:2]))


@pytest.mark.slow
def test_a_case_that_fails_shows_why(benchmark, tmp_path):
    with pytest.raises(SystemExit, match="(?s)case ours:lite9:3:auto failed with code 1.*there is no backbone"):
        benchmark.Case("ours:lite9:3:auto", tmp_path, 8).measure()


@pytest.mark.slow
def test_every_setting_is_shown_beside_its_rivals():
    options = ("--photos", "4", "--rounds", "1", "--settings", "lite0:2", "--shipped", "lite0:2")
    command = [sys.executable, str(FILE), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    first, _, *rows = done.stdout.splitlines()
    assert first.startswith("4 photos of noise in each of 3 rounds")
    assert [row.split()[0] for row in rows] == ["CLIP", "lite0", "lite0", "goal:", "goal:"]
