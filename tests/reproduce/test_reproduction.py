"""A whole reproduction; killed or stopped, it goes on and repeats nothing."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import smlstm.cli.evaluate
import smlstm.cli.reproduce  # noqa: F401 - registers the commands
from smlstm.cli import app
from smlstm.errors import ConfigurationError, InputError, SmlstmError
from smlstm.evaluation.evaluate import report
from smlstm.evaluation.matrices import load_matrices
from smlstm.reproduce import read_reproduce_config, reproduce
from smlstm.reproduce.budget import train_within, trained
from smlstm.reproduce.plan import make_plan
from smlstm.training.checkpoint import read_checkpoint
from smlstm.training.stopping import Stopping

RUNS = ["mnlm", "smlstm", "mean", "att", "ctx", "steps-1", "lambda-100", "joint", "vsepp", "scan"]


@pytest.fixture(scope="module")
def whole(shared_recipe, tmp_path_factory):
    """All parts, once."""
    folder = tmp_path_factory.mktemp("runs") / "small"
    done = CliRunner().invoke(app, ["reproduce", str(shared_recipe), "--out", str(folder), "--pairs", "2"])
    assert done.exit_code == 0, (done.output, done.exception)
    return folder, done.stdout


@pytest.fixture(scope="module")
def numbers(whole):
    return json.loads((whole[0] / "report" / "numbers.json").read_text())


def test_every_run_is_trained_and_measured(whole, numbers):
    folder, said = whole
    assert said.startswith("10 of 10 runs are measured\nreport: ")
    assert list(numbers["runs"]) == [*RUNS, "ensemble"]
    assert all((folder / name / "model" / "model.safetensors").exists() for name in RUNS)
    for name in RUNS:
        found = numbers["runs"][name]
        assert found["training"]["finished"] and found["training"]["reason"] == "all epochs are done"
        assert found["training"]["epochs"] == (1 if name in ("mnlm", "vsepp") else 2)
        assert found["pairs"] == 8 * 16
        assert found["scoring_seconds"] > 0


def test_the_numbers_are_those_of_an_evaluation_of_the_saved_models(whole, numbers, scenes):
    folder, _ = whole
    arguments = ["evaluate", *(str(folder / name) for name in ("att", "scan")), "--data", str(scenes)]
    done = CliRunner().invoke(app, [*arguments, "--features", str(scenes / "features"), "--json"])
    results = {each["model"]: each for each in json.loads(done.stdout)["results"]}
    for name in ("att", "scan"):
        assert numbers["runs"][name]["sum"] == pytest.approx(results[name]["sum"])
        assert numbers["runs"][name]["intervals"]["sum"] == pytest.approx(results[name]["intervals"]["sum"])


def test_the_ensemble_is_the_sum_of_the_four_variants(whole, numbers):
    saved = load_matrices([whole[0] / "matrices" / f"{name}.npy" for name in ("mean", "att", "ctx", "smlstm")])
    found = report([(each.name, each.scores) for each in saved], saved[0].gallery)
    assert numbers["runs"]["ensemble"]["sum"] == pytest.approx(found.results[-1].metrics.sum)
    assert len(list((whole[0] / "matrices").glob("*.npy"))) == 4


def test_attention_is_measured_with_and_without_context(numbers):
    assert list(numbers["attention"]) == ["smlstm", "att"]
    seen = numbers["attention"]["smlstm"]
    assert seen["removal"][0]["pairs"] == 4
    assert seen["pointing"]["scenes"] <= 4 and seen["pointing"]["chance"] > 0
    assert np.shape(seen["average"]["regions"]) == (3, 3, 3)
    assert seen["average"]["pairs"] == 16


def test_the_report_stands_by_itself_and_names_no_place_of_this_machine(whole, scenes):
    place = whole[0] / "report"
    page, text = (place / "report.html").read_text(), (place / "report.md").read_text()
    assert not re.search(r'(src|href)="(?!data:|#)', page), "nothing is fetched"
    assert page.count("data:image/png;base64,") == len(list((place / "figures").glob("*.png"))) == 6
    assert "The same scenes as smlstm and att see them" in text, "drawn scenes may be shown"
    for name in re.findall(r"\]\((figures/[^)]+)\)", text):
        assert (place / name).read_bytes().startswith(b"\x89PNG")
    for content in (page, text, (place / "numbers.json").read_text()):
        assert str(scenes.parent) not in content and str(whole[0].parent) not in content
    assert "steps without 2, 4, 5; lambdas without 0, 10, 1000" in text
    for row in ("| DSPE+FV | 40.3 / 68.9 / 79.9 |", "| T = 3 | 42.4 / 67.5 / 79.9 | 28.2 / 57.0 / 68.4 | 343.4 |"):
        assert row in text, "the paper's numbers stand in it"
    assert (whole[0] / "pairs.html").read_text().startswith("<!doctype html>")


def test_a_start_from_another_folder_is_named_without_its_place(recipe, whole, tmp_path):
    config = read_reproduce_config(recipe, [f"stage.smlstm.start_from={whole[0] / 'mnlm'}"])
    outcome = reproduce(config, tmp_path / "out", report_only=True)
    content = outcome.report.numbers.read_text()
    assert str(whole[0]) not in content
    assert json.loads(content)["configuration"]["stage"]["smlstm"]["start_from"] == "mnlm"


def test_a_second_time_nothing_is_repeated(whole, shared_recipe, monkeypatch):
    folder, _ = whole
    watched = [*folder.glob("*/checkpoint.pt"), *folder.glob("results/*"), *folder.glob("matrices/*")]
    before = {path: path.stat().st_mtime_ns for path in watched}
    monkeypatch.setattr("smlstm.reproduce.budget.train", None)
    outcome = reproduce(read_reproduce_config(shared_recipe), folder)
    assert (outcome.done, outcome.runs, outcome.interrupted) == (10, 10, False)
    assert {path: path.stat().st_mtime_ns for path in watched} == before


def test_runs_of_a_version_with_fewer_options_are_taken_over(whole, shared_recipe, tmp_path):
    """An option that came later stands at its default, which is what those runs did."""
    folder = tmp_path / "out"
    shutil.copytree(whole[0], folder, symlinks=True)
    for card in folder.glob("*/budget.json"):
        content = json.loads(card.read_text())
        (stage,) = content["identity"]["stage"].values()
        del stage["model"]["language_model"]
        card.write_text(json.dumps(content))
        checkpoint = torch.load(card.with_name("checkpoint.pt"), weights_only=True)
        (stage,) = checkpoint["identity"]["stage"].values()
        del stage["model"]["language_model"]
        torch.save(checkpoint, card.with_name("checkpoint.pt"))
    outcome = reproduce(read_reproduce_config(shared_recipe), folder)
    assert (outcome.done, outcome.runs, outcome.interrupted) == (10, 10, False)


def test_a_part_alone_makes_its_runs_and_the_report_says_what_is_missing(recipe, tmp_path):
    outcome = reproduce(read_reproduce_config(recipe), tmp_path / "out", only=["steps"])
    assert (outcome.done, outcome.runs) == (3, 3)
    assert not (tmp_path / "out" / "joint").exists()
    assert (
        "Not measured (yet): mean, att, ctx, lambda-100, joint, vsepp, scan, ensemble."
        in outcome.report.markdown.read_text()
    )


def test_what_was_measured_of_another_state_of_a_model_is_not_in_the_report(whole, shared_recipe, tmp_path):
    folder = tmp_path / "out"
    shutil.copytree(whole[0], folder, symlinks=True)
    weights = folder / "smlstm" / "model" / "model.safetensors"
    shutil.copy(whole[0] / "lambda-100" / "model" / "model.safetensors", weights)  # as if it had been trained on
    config = read_reproduce_config(shared_recipe)
    outcome = reproduce(config, folder, report_only=True)
    numbers = json.loads(outcome.report.numbers.read_text())
    assert "smlstm" not in numbers["runs"] and "ensemble" not in numbers["runs"]
    assert list(numbers["attention"]) == ["att"]
    assert "Not measured (yet): smlstm, ensemble." in outcome.report.markdown.read_text()
    reproduce(config, folder, only=["steps"])
    numbers = json.loads(outcome.report.numbers.read_text())
    assert "smlstm" in numbers["runs"] and "ensemble" not in numbers["runs"] and "smlstm" not in numbers["attention"]
    reproduce(config, folder)
    numbers = json.loads(outcome.report.numbers.read_text())
    assert {"smlstm", "ensemble"} <= set(numbers["runs"]) and list(numbers["attention"]) == ["smlstm", "att"]


def test_the_report_says_what_each_run_was_given_and_on_which_machine(whole, shared_recipe, tmp_path):
    folder = tmp_path / "out"
    shutil.copytree(whole[0], folder, symlinks=True)
    (folder / "machine.json").write_text(
        json.dumps({**json.loads((folder / "machine.json").read_text()), "threads": 7})
    )
    config = read_reproduce_config(shared_recipe)
    text = reproduce(config, folder, report_only=True, minutes=3).report.markdown.read_text()
    assert "2 epochs at most, no limit of time." in text and " 7 threads, " in text
    for card in folder.glob("*/budget.json"):
        card.write_text(json.dumps({**json.loads(card.read_text()), "minutes": 30 if "scan" in card.parts else 20}))
    text = reproduce(config, folder, report_only=True).report.markdown.read_text()
    assert "at most 20 minutes a run: mnlm, smlstm" in text and "at most 30 minutes a run: scan." in text


def test_the_report_says_in_what_its_base_is_not_the_papers_model(whole):
    text = (whole[0] / "report" / "report.md").read_text()
    told = re.search(r"It departs from the paper \(whose value is in brackets\) in: (.*?)\. Every other", text).group(1)
    assert "comparison (additive)" in told and "modulation (joint)" in told and "lambda (100)" in told
    assert "hidden width (1024)" in told and "steps" not in told


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("reproduce.variants=['att','att','full']", "reproduce.variants: att is there twice"),
        ("reproduce.lambdas=[1,1.0]", r"reproduce.lambdas: 1\.0 is there twice"),
        ("reproduce.lambdas=[inf]", r"reproduce.lambdas.*finite"),
        ("reproduce.minutes=inf", r"reproduce.minutes.*finite"),
    ],
)
def test_sweeps_that_cannot_be_are_refused(recipe, setting, message):
    with pytest.raises(ConfigurationError, match=message):
        read_reproduce_config(recipe, [setting])


def test_minutes_are_counted_over_all_sessions(recipe, tmp_path, monkeypatch):
    config = make_plan(read_reproduce_config(recipe)).config
    asked: list[float | None] = []
    from smlstm.reproduce import budget  # noqa: PLC0415

    def counted(*arguments, minutes, **more):
        asked.append(minutes)
        return real(*arguments, minutes=minutes, **more)

    real = budget.train
    monkeypatch.setattr(budget, "train", counted)
    first = train_within(config, tmp_path, "mnlm", 5.0)
    assert first.finished
    assert train_within(config, tmp_path, "mnlm", 9.0) == first
    assert asked == [5.0], "a run at its own end needs no more minutes"
    (tmp_path / "mnlm" / "budget.json").unlink()  # killed before it could say that it had ended
    assert train_within(config, tmp_path, "mnlm", 5.0) == first
    spent = read_checkpoint(tmp_path / "mnlm" / "checkpoint.pt").progress.seconds / 60
    assert asked[1] == pytest.approx(5.0 - spent)


def test_a_run_that_the_clock_ended_goes_on_only_with_more_minutes(recipe, tmp_path, monkeypatch):
    plan = make_plan(read_reproduce_config(recipe, ["stage.mnlm.epochs=9999", "stage.mnlm.patience=0"]))
    asked = iter(range(10**6))
    monkeypatch.setattr(Stopping, "reason", property(lambda self: "time is up" if next(asked) % 8 == 7 else ""))
    ended = train_within(plan.config, tmp_path, "mnlm", 1000.0)
    assert (ended.finished, ended.reason) == (False, "time is up")
    step = read_checkpoint(tmp_path / "mnlm" / "checkpoint.pt").progress.step
    assert step > 0
    assert trained(plan.config, tmp_path, "mnlm", 1000.0) == train_within(plan.config, tmp_path, "mnlm", 900.0) == ended
    assert read_checkpoint(tmp_path / "mnlm" / "checkpoint.pt").progress.step == step
    assert trained(plan.config, tmp_path, "mnlm", None) is None
    train_within(plan.config, tmp_path, "mnlm", 2000.0)
    assert read_checkpoint(tmp_path / "mnlm" / "checkpoint.pt").progress.step > step


@pytest.mark.slow
def test_killed_in_the_middle_of_a_run_it_goes_on_and_ends_as_if_never_killed(whole, shared_recipe, tmp_path):
    command = [sys.executable, "-c", "from smlstm.cli import main; main()", "reproduce", str(shared_recipe)]
    process = subprocess.Popen(
        [*command, "--out", str(tmp_path), "--only", "steps"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    begun = tmp_path / "smlstm" / "checkpoint.pt"
    while process.poll() is None and not begun.exists():
        time.sleep(0.002)
    assert process.poll() is None, "it had finished before it could be killed"
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    finished = (tmp_path / "mnlm" / "checkpoint.pt").stat().st_mtime_ns
    outcome = reproduce(read_reproduce_config(shared_recipe), tmp_path, only=["steps"])
    assert outcome.done == 3
    assert (tmp_path / "mnlm" / "checkpoint.pt").stat().st_mtime_ns == finished, "a complete run is not repeated"
    for name in ("mnlm", "smlstm", "steps-1"):
        killed, never = (folder / name / "model" / "model.safetensors" for folder in (tmp_path, whole[0]))
        assert killed.read_bytes() == never.read_bytes()


def test_interrupted_it_says_how_to_go_on(recipe, tmp_path, monkeypatch):
    monkeypatch.setattr("smlstm.reproduce.reproduction.train_within", lambda *_: None)
    done = CliRunner().invoke(app, ["reproduce", str(recipe), "--out", str(tmp_path / "out"), "--only", "steps"])
    assert done.exit_code == 130
    assert "interrupted; the same command continues" in done.output
    assert "0 of 3 runs are measured" in done.output
    assert (tmp_path / "out" / "report" / "report.html").exists()


def never(*_: object, **__: object) -> None:
    raise AssertionError("training began")


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("reproduce.split=test", 'no "test" split; it has train, dev'),
        ("data.0.dataset=/nowhere", "nowhere does not exist"),
        ("data.0.features=/nowhere", "nowhere has no features"),
    ],
)
def test_bad_input_is_refused_before_any_run(recipe, tmp_path, monkeypatch, setting, message):
    monkeypatch.setattr("smlstm.reproduce.budget.train", never)
    with pytest.raises(SmlstmError, match=message):
        reproduce(read_reproduce_config(recipe, [setting]), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_images_without_features_are_refused_before_any_run(recipe, tmp_path, monkeypatch, scenes):
    monkeypatch.setattr("smlstm.reproduce.budget.train", never)
    lines = (scenes / "captions.csv").read_text().splitlines()
    (tmp_path / "more.csv").write_text("\n".join([*lines, "99999.png,a red star,dev"]) + "\n")
    with pytest.raises(InputError, match=r'no features of 1 of 9 dev images, the first is "99999\.png": extract'):
        reproduce(read_reproduce_config(recipe, [f"data.0.dataset={tmp_path / 'more.csv'}"]), tmp_path / "out")


def test_a_folder_of_other_runs_is_refused_by_the_setting_that_differs(whole, shared_recipe, monkeypatch):
    monkeypatch.setattr("smlstm.reproduce.budget.train", never)
    config = read_reproduce_config(shared_recipe, ["stage.smlstm.learning_rate=0.5"])
    with pytest.raises(ConfigurationError, match=r"learning_rate was 0\.001 and is 0\.5\. Give --out another folder"):
        reproduce(config, whole[0])


def test_too_few_minutes_for_a_step_say_so(recipe, tmp_path):
    with pytest.raises(SmlstmError, match="mnlm: 1e-09 minutes were too few for a single step"):
        reproduce(read_reproduce_config(recipe), Path(tmp_path / "out"), minutes=1e-9)
