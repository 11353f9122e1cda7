"""Killed at any moment, a run goes on exactly the way it was going."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from smlstm.errors import ConfigurationError
from smlstm.training import read_config, train
from smlstm.training.checkpoint import read_checkpoint
from smlstm.training.folder import read_metrics

TIMES = {"seconds", "pairs_per_second", "dev_seconds"}


def told(folder: Path) -> list[dict]:
    """All lines of metrics, without what a clock says."""
    return [
        {key: value for key, value in line.items() if key not in TIMES}
        for stage in ("mnlm", "smlstm")
        for line in read_metrics(folder / stage / "metrics.jsonl")
    ]


def assert_same_run(one: Path, other: Path) -> None:
    for stage in ("mnlm", "smlstm"):
        first, second = (read_checkpoint(folder / stage / "checkpoint.pt") for folder in (one, other))
        assert first.progress.step == second.progress.step
        for name, tensor in first.model.items():
            assert torch.equal(tensor, second.model[name]), name
        moments = zip(first.optimiser["state"].values(), second.optimiser["state"].values(), strict=True)
        assert all(torch.equal(a["exp_avg_sq"], b["exp_avg_sq"]) for a, b in moments)
        weights = [(folder / stage / "model" / "model.safetensors").read_bytes() for folder in (one, other)]
        assert weights[0] == weights[1]
    assert told(one) == told(other)


def start(recipe: Path, out: Path, settings: list[str]) -> subprocess.Popen:
    command = [sys.executable, "-c", "from smlstm.cli import main; main()", "train", str(recipe), "--out", str(out)]
    command += [part for setting in settings for part in ("--set", setting)]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


@pytest.mark.slow
def test_killed_again_and_again_it_ends_as_if_never_killed(recipe, tmp_path):
    settings = ["stage.mnlm.epochs=2", "stage.smlstm.epochs=4"]
    settings += [f"stage.{stage}.checkpoint_seconds=0" for stage in ("mnlm", "smlstm")]
    train(read_config(recipe, settings), tmp_path / "whole")

    chance = random.Random(5)
    folder = tmp_path / "killed"
    kills = 0
    for delay in (chance.uniform(0, 0.1), chance.uniform(0, 0.3)):
        process = start(recipe, folder, settings)
        before = [path.stat().st_mtime_ns for path in sorted(folder.glob("*/checkpoint.pt"))]
        while process.poll() is None:  # until it has written a checkpoint of its own, and a little longer
            if [path.stat().st_mtime_ns for path in sorted(folder.glob("*/checkpoint.pt"))] != before:
                time.sleep(delay)
                break
            time.sleep(0.002)
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
            kills += 1
        process.communicate()
    last = start(recipe, folder, settings)
    assert last.wait() == 0, last.stderr.read().decode()
    last.stderr.close()
    assert kills >= 1, "every process had finished before it could be killed"
    assert_same_run(tmp_path / "whole", folder)


def test_stopped_at_every_few_steps_by_the_clock_it_ends_the_same(recipe, tmp_path, monkeypatch):
    train(read_config(recipe), tmp_path / "whole")
    from smlstm.training.stopping import Stopping  # noqa: PLC0415

    asked = iter(range(10**6))
    monkeypatch.setattr(Stopping, "reason", property(lambda self: "time is up" if next(asked) % 20 == 19 else ""))
    for _ in range(30):
        results = train(read_config(recipe), tmp_path / "parts")
        if all(result.finished for result in results) and len(results) == 2:
            break
    monkeypatch.undo()
    assert_same_run(tmp_path / "whole", tmp_path / "parts")


def test_ctrl_c_leaves_a_checkpoint(recipe, tmp_path):
    settings = ["stage.mnlm.epochs=500", "stage.mnlm.patience=0"]
    process = start(recipe, tmp_path / "run", settings)
    metrics = tmp_path / "run" / "mnlm" / "model"
    while process.poll() is None and not metrics.exists():
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate()
    assert process.returncode == 130
    assert b"the same command continues" in said
    assert read_checkpoint(tmp_path / "run" / "mnlm" / "checkpoint.pt").progress.step > 0


def test_another_configuration_is_refused_by_the_setting_that_differs(recipe, tmp_path):
    train(read_config(recipe), tmp_path, stages=["mnlm"])
    changed = read_config(recipe, ["stage.mnlm.learning_rate=0.5"])
    with pytest.raises(ConfigurationError, match=r"stage\.mnlm\.learning_rate was 0\.001 and is 0\.5.*--fresh"):
        train(changed, tmp_path)
    saved = json.loads((tmp_path / "config.json").read_text())
    assert saved["stage"]["mnlm"]["learning_rate"] == 0.001, "a refused run must not rewrite the folder"
    assert train(changed, tmp_path, stages=["mnlm"], fresh=True)[0].finished


def test_a_later_stage_can_be_changed_without_training_the_first_again(recipe, tmp_path):
    train(read_config(recipe), tmp_path, stages=["mnlm"])
    before = (tmp_path / "mnlm" / "checkpoint.pt").stat().st_mtime_ns
    results = train(read_config(recipe, ["stage.smlstm.epochs=1"]), tmp_path)
    assert [result.stage for result in results] == ["mnlm", "smlstm"]
    assert (tmp_path / "mnlm" / "checkpoint.pt").stat().st_mtime_ns == before


def test_a_broken_checkpoint_is_refused_with_a_way_out(recipe, tmp_path):
    train(read_config(recipe), tmp_path, stages=["mnlm"])
    (tmp_path / "mnlm" / "checkpoint.pt").write_bytes(b"not a checkpoint")
    with pytest.raises(ConfigurationError, match="--fresh"):
        train(read_config(recipe), tmp_path)


def test_a_changed_byte_of_a_checkpoint_is_noticed(recipe, tmp_path):
    train(read_config(recipe), tmp_path, stages=["mnlm"])
    path = tmp_path / "mnlm" / "checkpoint.pt"
    data = bytearray(path.read_bytes())
    weights = next(iter(read_checkpoint(path).model.values())).contiguous().numpy().tobytes()
    data[data.index(weights) + len(weights) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(ConfigurationError, match=r"checkpoint\.pt is not a checkpoint, or is damaged.*--fresh"):
        train(read_config(recipe), tmp_path)


@pytest.mark.parametrize("damage", [b"\xff\xfe\n", b"7\n", b'{"event": "steps"}\n', b'{"event": "epoch", "dev": {}}\n'])
def test_a_damaged_line_of_metrics_is_left_out(tmp_path, damage):
    whole = b'{"event": "end", "step": 24, "reason": "all epochs are done"}\n'
    (tmp_path / "metrics.jsonl").write_bytes(whole + damage + whole + whole[:-9])
    assert [line["step"] for line in read_metrics(tmp_path / "metrics.jsonl")] == [24, 24]
