"""A whole run, small: what it leaves, what it says, what it learns."""

import json

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from smlstm import Matcher
from smlstm.cli import app
from smlstm.data.lock import Locked, WriterLock
from smlstm.errors import ConfigurationError, InputError, SmlstmError
from smlstm.model import MNLM
from smlstm.training import Watcher, read_config, train
from smlstm.training.folder import read_metrics
from smlstm.training.read_examples import read_examples
from tests.training.conftest import write_scenes


class Listener(Watcher):
    def __init__(self) -> None:
        self.notices: list[str] = []

    def notice(self, text: str) -> None:
        self.notices.append(text)


def test_a_run_leaves_its_folder(recipe, tmp_path):
    listener = Listener()
    results = train(read_config(recipe), tmp_path / "run", watcher=listener)
    assert [(result.stage, result.finished) for result in results] == [("mnlm", True), ("smlstm", True)]
    run = tmp_path / "run"
    config = json.loads((run / "config.json").read_text())
    assert config["stage"]["smlstm"]["model"]["steps"] == 3, "defaults are written down"
    assert json.loads((run / "machine.json").read_text())["torch"] == torch.__version__
    assert (run / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert Matcher.load(run / "model").kind == "sm-lstm"
    assert Matcher.load(run / "mnlm" / "model").kind == "mnlm"
    lines = list(read_metrics(run / "smlstm" / "metrics.jsonl"))
    assert [line["event"] for line in lines if line["event"] != "steps"] == ["epoch", "epoch", "end"]
    assert any("smlstm starts from a trained mnlm" in notice for notice in listener.notices)


def test_the_same_seed_gives_the_same_run(recipe, tmp_path):
    weights = []
    for name, seed in (("one", 1), ("two", 1), ("three", 2)):
        train(read_config(recipe, [f"seed={seed}"]), tmp_path / name, stages=["mnlm"])
        weights.append((tmp_path / name / "mnlm" / "model" / "model.safetensors").read_bytes())
    assert weights[0] == weights[1] != weights[2]


def test_training_learns(recipe, tmp_path):
    settings = ["stage.mnlm.epochs=25", "stage.mnlm.learning_rate=0.02", "stage.mnlm.patience=0"]
    result = train(read_config(recipe, settings), tmp_path, stages=["mnlm"])[0]
    losses = [line["loss"] for line in read_metrics(tmp_path / "mnlm" / "metrics.jsonl") if line["event"] == "steps"]
    assert losses[-1] < 0.5 * losses[0]
    assert result.best is not None and result.best["dev"]["sum"] > 200, "chance is about 140 among 24 images"


@pytest.mark.parametrize(
    "settings",
    [
        ["negatives=uniform", "objective.negatives=4"],
        ["captions_together=2"],
        ["precision=bfloat16", "weight_decay=0.01"],
        ["model.modulation=joint", "precision=bfloat16"],
        ["model.variant=ctx"],
        ["model.modulation=joint", "model.variant=att"],
        ["kind=scan", "model={ embedding_width = 16, sentence_width = 16, max_words = 16 }"],
    ],
    ids=lambda settings: settings[0],
)
def test_every_way_of_training_runs(recipe, tmp_path, settings):
    changes = ["stage.mnlm.epochs=1", "stage.smlstm.epochs=1", *(f"stage.smlstm.{setting}" for setting in settings)]
    results = train(read_config(recipe, changes), tmp_path)
    assert all(result.finished and result.best for result in results)


def test_early_stopping(recipe, tmp_path):
    settings = ["stage.mnlm.epochs=50", "stage.mnlm.patience=1", "stage.mnlm.learning_rate=1e-9"]
    result = train(read_config(recipe, settings), tmp_path, stages=["mnlm"])[0]
    assert result.reason == "no better dev Sum for 1 epochs"


def test_a_loss_that_is_not_a_number_says_what_to_do(recipe, tmp_path, monkeypatch):
    score = MNLM.score
    monkeypatch.setattr(MNLM, "score", lambda self, images, words: score(self, images, words) * torch.nan)
    with pytest.raises(SmlstmError, match=r"not a number at step 1 .*learning_rate \(now 0\.001\)"):
        train(read_config(recipe), tmp_path, stages=["mnlm"])


def test_a_model_that_learns_nothing_is_noticed(recipe, tmp_path, monkeypatch):
    listener = Listener()
    monkeypatch.setattr(MNLM, "score", lambda self, images, words: 0 * images.vectors @ words.vectors.T)
    settings = ["stage.mnlm.epochs=2", "stage.mnlm.log_steps=1"]
    train(read_config(recipe, settings), tmp_path, stages=["mnlm"], watcher=listener)
    assert sum("gives every pair the same score" in notice for notice in listener.notices) == 1


def test_the_clock_stops_a_run_and_it_is_measured(recipe, tmp_path):
    endless = read_config(recipe, ["stage.mnlm.epochs=9999", "stage.mnlm.patience=0"])
    result = train(endless, tmp_path, stages=["mnlm"], minutes=0.02)[0]
    assert (result.finished, result.reason) == (False, "time is up")
    assert (tmp_path / "mnlm" / "checkpoint.pt").exists()


def test_a_stage_whose_start_is_missing_says_so(recipe, tmp_path):
    with pytest.raises(InputError, match='stage "mnlm" has no model yet'):
        train(read_config(recipe), tmp_path, stages=["smlstm"])
    with pytest.raises(ConfigurationError, match=r'no stage "smlst"; this run has mnlm, smlstm'):
        train(read_config(recipe), tmp_path, stages=["smlst"])


def test_a_stage_is_trained_by_one_process_at_a_time(recipe, tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    other = WriterLock(run / ".smlstm.lock")
    with pytest.raises(Locked, match="run is being written by"):
        train(read_config(recipe), run)
    assert not (run / "mnlm").exists(), "nothing is begun that cannot be ended"
    assert train(read_config(recipe), run, stages=["mnlm"])[0].finished, "another stage may be trained beside it"
    other.release()
    assert all(result.finished for result in train(read_config(recipe), run))


def test_datasets_are_joined_with_images_of_their_own(recipe, tmp_path, scenes):
    other = write_scenes(tmp_path / "other", train=20, dev=5, seed=9)
    more = f"{{ dataset = '{other / 'captions.csv'}', features = '{other / 'features'}', dev = false }}"
    base = f"{{ dataset = '{scenes / 'captions.csv'}', features = '{scenes / 'features'}' }}"
    config = read_config(recipe, [f"data=[{base}, {more}]"])
    training, dev, _ = read_examples(config.data)
    assert len(training.images) == 96 + 20
    assert len(dev.images) == 24
    both = training.images.read(training.image_of[[0, -1]])
    alone, _, _ = read_examples([config.data[1].model_copy(update={"dev": True})])
    torch.testing.assert_close(both.context[1], alone.images.read(alone.image_of[[-1]]).context[0])


def test_features_made_otherwise_are_not_joined(recipe, tmp_path, scenes):
    other = write_scenes(tmp_path / "other", train=8, dev=4, seed=9, width=32)
    more = f"{{ dataset = '{other / 'captions.csv'}', features = '{other / 'features'}' }}"
    base = f"{{ dataset = '{scenes / 'captions.csv'}', features = '{scenes / 'features'}' }}"
    with pytest.raises(InputError, match='"region_width" is 24 .* and 32'):
        read_examples(read_config(recipe, [f"data=[{base}, {more}]"]).data)


def test_the_command_trains_and_runs_lists(recipe, tmp_path):
    import smlstm.cli.runs  # noqa: PLC0415
    import smlstm.cli.train  # noqa: F401, PLC0415

    command = CliRunner()
    out = str(tmp_path / "runs" / "a")
    arguments = ["train", str(recipe), "--stage", "mnlm", "--out", out, "--set", "stage.mnlm.epochs=1", "--tensorboard"]
    done = command.invoke(app, arguments)
    assert done.exit_code == 0, done.output
    assert "best on dev" in done.stdout
    again = command.invoke(app, ["train", out, "--stage", "mnlm", "--json"])
    assert json.loads(again.stdout)["stages"][0]["finished"], "the folder of a run is a configuration"
    other = str(tmp_path / "runs" / "b")
    changed = ["--set", "stage.mnlm.epochs=1", "--set", "stage.mnlm.clip=0.5"]
    command.invoke(app, ["train", str(recipe), "--stage", "mnlm", "--out", other, *changed])
    listed = command.invoke(app, ["runs", str(tmp_path / "runs")])
    assert "all epochs are done" in listed.stdout
    assert "clip" in listed.stdout and "learning_rate" not in listed.stdout
    found = json.loads(command.invoke(app, ["runs", out, other, "--json"]).stdout)
    assert [summary["run"] for summary in found] == ["a", "b"]
    assert found[0]["best"]["sum"] > 0


def test_so_many_captions_of_each_training_photo(recipe):
    whole, dev, _ = read_examples(read_config(recipe).data)
    few, same_dev, _ = read_examples(read_config(recipe, ["data.0.captions=1"]).data)
    assert np.bincount(whole.image_of).min() > 1 and np.bincount(few.image_of).tolist() == [1] * len(whole.images)
    assert few.captions == tuple(whole.captions[int(np.argmax(whole.image_of == image))] for image in few.image_of)
    assert same_dev.captions == dev.captions
