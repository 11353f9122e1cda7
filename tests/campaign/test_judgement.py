"""The campaign's own judgement: planted faults are found, and nothing else is."""

import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from smlstm.data import FeatureSpec, FeatureStore
from tests.campaign.answers import Answer, compare
from tests.campaign.askers import together
from tests.campaign.kill_work import compare_stores
from tests.campaign.mutation import damage, damage_file, damage_json, damage_toml
from tests.campaign.report import Attempt, make_table
from tests.campaign.verdict import Verdict
from tests.campaign.workplace import Workplace

DOG, STAR = Answer((0.5, 0.25), 64, 64), Answer((0.125, 0.75), 64, 64)


def judged(expected, found) -> list[tuple[str, int]]:
    verdict = Verdict()
    compare(expected, found, verdict)
    return [(each.kind, each.count) for each in verdict.findings]


def test_right_answers_pass():
    assert judged({"a": DOG, "b": STAR, "broken": None}, {"a": DOG, "b": STAR}) == []


@pytest.mark.parametrize(
    ("found", "findings"),
    [
        ({"a": DOG}, [("lost", 1)]),
        ({}, [("lost", 2)]),
        ({"a": DOG, "b": DOG}, [("wrong", 1)]),
        ({"a": DOG, "b": STAR._replace(width=32)}, [("wrong", 1)]),
        ({"a": DOG, "b": STAR._replace(probabilities=(0.125,))}, [("wrong", 1)]),
        ({"a": DOG, "b": STAR, "gone": STAR}, [("wrong", 1)]),
        ({"a": DOG, "b": STAR, "broken": STAR}, [("wrong", 1)]),
    ],
)
def test_a_planted_loss_or_difference_is_found(found, findings):
    assert judged({"a": DOG, "b": STAR, "broken": None}, found) == findings


@pytest.mark.parametrize(
    ("printed", "said"),
    [
        ("Traceback (most recent call last):\n  File x\nValueError: seven\n", "ValueError: seven"),
        ("thread 'tokio' panicked at src/lib.rs:12:\nindex out of bounds\n", "panicked at src/lib.rs:12:"),
    ],
)
def test_a_crash_in_what_was_printed_is_found(printed, said):
    verdict = Verdict()
    assert verdict.scan(f"progress\n{printed}") and said in verdict.findings[0].text
    assert not Verdict().scan("smlstm: photos/a.jpg cannot be read: it has no end")


def script(place: Workplace, monkeypatch, text: str) -> None:
    monkeypatch.setattr("tests.campaign.workplace._MAIN", text)


@pytest.fixture
def place(tmp_path: Path) -> Workplace:
    return Workplace(tmp_path, tmp_path / "base")


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("print('done')", []),
        ("import sys; sys.exit('smlstm: no')", ["wrong"]),  # code 1 where only 0 is right
        ("import os; os._exit(77)", ["wrong"]),
        ("raise ValueError", ["traceback"]),
        ("import time; time.sleep(60)", ["hang"]),
    ],
)
def test_a_command_is_judged_by_how_it_ends(place, monkeypatch, text, kinds):
    script(place, monkeypatch, text)
    place.run("index", patience=3.0)
    assert [each.kind for each in place.verdict.findings] == kinds


def test_a_failure_without_a_word_is_wrong(place, monkeypatch):
    script(place, monkeypatch, "import os; os._exit(3)")
    place.run("index", codes=(0, 3))
    assert "without a word" in place.verdict.findings[0].text


def test_who_is_killed_is_not_judged_but_what_it_printed_is(place, monkeypatch):
    program = "import time; open({!r}, 'w').close(); print({!r}, flush=True); time.sleep(60)"
    script(place, monkeypatch, program.format(str(place.folder / "made"), "thread panicked at x"))
    assert place.kill(random.Random(1), "index", after=place.folder)
    assert place.verdict.passed, "stdout of the killed is not looked at, stderr is"
    script(place, monkeypatch, "import sys, time; print('panicked at x', file=sys.stderr, flush=True); time.sleep(60)")
    for seed in range(20):  # some strike before the interpreter has started
        place.kill(random.Random(seed), "index", after=place.folder)
        if not place.verdict.passed:
            break
    assert [each.kind for each in place.verdict.findings] == ["traceback"]


def test_an_answer_that_differs_among_many_askers_is_wrong():
    verdict = Verdict()
    together(random.Random(0), [1, 2, 3], [10, 20, 31], lambda question: question * 10, verdict)
    assert [(each.kind, each.count) for each in verdict.findings] == [("wrong", 8)]


def test_a_store_that_lost_a_photo_is_found(tmp_path):
    rng = np.random.default_rng(0)
    regions, context = rng.random((3, 4, 8)), rng.random((3, 8))
    spec = FeatureSpec("patches", "0" * 64, "made", 4, 8, 8)
    for name, count in (("whole", 3), ("short", 2)):
        with FeatureStore.open(tmp_path / name, spec) as store:
            store.append(["a", "b", "c"][:count], regions[:count], context[:count])
    verdict = Verdict()
    compare_stores(tmp_path / "whole", tmp_path / "whole", verdict)
    assert verdict.passed
    compare_stores(tmp_path / "whole", tmp_path / "short", verdict)
    assert [each.kind for each in verdict.findings] == ["lost"]


def test_damage_is_damage_and_comes_again_with_its_seed(tmp_path):
    data = bytes(range(256)) * 10
    changed = [damage(random.Random(seed), data) for seed in range(200)]
    assert sum(each != data for each in changed) > 190
    assert changed == [damage(random.Random(seed), data) for seed in range(200)]
    text = '{"a": [1, {"b": 2}]}'
    assert sum(damage_json(random.Random(seed), text) != text for seed in range(50)) > 40
    assert sum(damage_toml(random.Random(seed), "a = 1\nb = 2") != "a = 1\nb = 2\n" for seed in range(50)) > 40
    (tmp_path / "file").write_bytes(data)
    assert "file" in damage_file(random.Random(3), tmp_path / "file")


def test_the_table_counts_by_attack_and_in_all():
    verdict = Verdict()
    verdict.add("lost", "three photos", count=3)
    verdict.add("hang", "still running")
    attempts = [Attempt("a", 1, 2.0, Verdict()), Attempt("a", 2, 3.0, verdict), Attempt("b", 1, 1.0, Verdict())]
    table = make_table(attempts)
    rows = list(zip(*(column.cells for column in table.columns), strict=True))
    assert rows == [
        ("a", "2", "1", "3", "0", "0", "1", "5"),
        ("b", "1", "0", "0", "0", "0", "0", "1"),
        ("all", "3", "1", "3", "0", "0", "1", "6"),
    ]
    assert Verdict.from_dict(verdict.to_dict()) == verdict


def test_an_unknown_attack_is_told():
    command = [sys.executable, "-m", "tests.campaign", "--only", "tickle"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2])
    assert done.returncode == 2 and "there is no attack tickle; there are kill-index" in done.stderr
