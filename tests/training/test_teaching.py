"""Learning from trained MNLMs which mismatched pairs almost match."""

import json

import numpy as np
import pytest
import torch

from smlstm.errors import ConfigurationError
from smlstm.training import read_config, train
from smlstm.training.checkpoint import read_checkpoint
from smlstm.training.run import changed_since
from smlstm.training.step import BatchLoss
from smlstm.training.teaching import teaching_loss
from tests.training.grids import example_batch, example_matcher, example_objective, example_teachers


def literal(scores: np.ndarray, taught: np.ndarray, temperature: float) -> float:
    """The divergence of two softmaxes, row by row and column by column."""
    total = 0.0
    for first, second in ((scores, taught), (scores.T, taught.T)):
        for row, told in zip(first, second, strict=True):
            p, q = np.exp(row / temperature), np.exp(told / temperature)
            p, q = p / p.sum(), q / q.sum()
            total += float((q * np.log(q / p)).sum()) / len(first)
    return total


def test_teaching_is_the_divergence_from_what_the_teachers_say():
    chance = np.random.default_rng(0)
    scores, taught = chance.normal(size=(5, 7)), chance.normal(size=(5, 7))
    found = teaching_loss(torch.from_numpy(scores), torch.from_numpy(taught), 0.5)
    assert float(found) == pytest.approx(literal(scores, taught, 0.5))


def test_who_says_what_the_teachers_say_has_nothing_to_learn():
    taught = torch.randn(4, 6, requires_grad=True)
    loss = teaching_loss(taught + 3.0, taught.detach(), 0.05)
    loss.backward()
    assert loss.item() == pytest.approx(0, abs=1e-5)
    assert taught.grad.abs().max() < 1e-4


def test_teachers_know_pairs_by_their_numbers():
    teachers = example_teachers()
    images, captions = torch.tensor([7, 100, 3]), torch.tensor([250, 0])
    found = teachers.scores(images, captions)
    assert found.shape == (3, 2)
    torch.testing.assert_close(teachers.scores(images[[2, 0, 1]], captions), found[[2, 0, 1]])
    torch.testing.assert_close(teachers.scores(images, captions.flip(0)), found.flip(1))


@pytest.mark.parametrize("kind", ["mnlm", "sm-lstm+"])
def test_teachers_have_their_share_of_the_loss(kind):
    matcher, batch, objective = example_matcher(kind), example_batch(), example_objective()
    alone = BatchLoss(matcher, objective)(batch)
    taught = BatchLoss(matcher, objective, teachers=example_teachers(share=0.3))(batch)
    torch.testing.assert_close(taught[0], 0.7 * alone[0])
    more = BatchLoss(matcher, objective, teachers=example_teachers(share=0.6))(batch)
    torch.testing.assert_close(more[1], 2 * taught[1])
    assert taught[1] > 0
    torch.testing.assert_close(taught[2], alone[2])


def test_a_taught_model_comes_to_agree_with_its_teacher(recipe, tmp_path):
    model = "stage.smlstm.model={ sentence_width = 16, max_words = 16 }"
    taught = ["stage.smlstm.teachers=['mnlm']", "stage.smlstm.teaching=0.99", "stage.smlstm.start_from=[]"]
    settings = ["stage.smlstm.kind='mnlm'", model, *taught, "stage.smlstm.epochs=6", "stage.mnlm.epochs=6"]
    train(read_config(recipe, settings), tmp_path)
    lines = [json.loads(line) for line in (tmp_path / "smlstm" / "metrics.jsonl").read_text().splitlines()]
    steps = [line for line in lines if line["event"] == "steps"]
    assert steps[-1]["teaching"] < 0.5 * steps[0]["teaching"]
    assert steps[-1]["loss"] == pytest.approx(sum(steps[-1][name] for name in ("ranking", "teaching", "regulariser")))


def test_a_teacher_must_be_there_and_have_vectors(recipe, tmp_path):
    with pytest.raises(ConfigurationError, match=r"stage.smlstm.teachers: 'nobody' is neither an earlier stage"):
        read_config(recipe, ["stage.smlstm.teachers=['nobody']"])
    settings = ["stage.mnlm.kind='oem'", "stage.mnlm.epochs=1", "stage.smlstm.start_from=[]"]
    with pytest.raises(ConfigurationError, match="teachers: mnlm is a oem, not an MNLM"):
        train(read_config(recipe, [*settings, "stage.smlstm.teachers=['mnlm']"]), tmp_path)


def test_a_checkpoint_from_before_there_were_teachers_still_fits(recipe, tmp_path):
    config = read_config(recipe, ["stage.mnlm.epochs=1"])
    train(config, tmp_path, stages=["mnlm"])
    written = read_checkpoint(tmp_path / "mnlm" / "checkpoint.pt").identity
    for setting in ("teachers", "teaching"):
        del written["stage"]["mnlm"][setting]
    assert changed_since(written, config, "mnlm") is None
    other = read_config(recipe, ["stage.mnlm.epochs=1", "stage.mnlm.teaching=0.25"])
    assert "teaching" in str(changed_since(written, other, "mnlm"))
