import numpy as np
import pytest

from smlstm.data import open_dataset
from smlstm.errors import InputError
from smlstm.evaluation.evaluate import Evaluation
from smlstm.evaluation.models import load_candidates
from tests.evaluation.made import save_mnlm, save_smlstm, write_scenes


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    return write_scenes(tmp_path_factory.mktemp("world"))


def plan(world, folder, terms):
    dataset = open_dataset(world / "captions.csv")
    return Evaluation.plan(load_candidates([folder]), dataset, "dev", features=world / "features", terms=terms)


def matrices(world, folder, terms):
    return dict(plan(world, folder, terms).score())


@pytest.mark.parametrize("weights", [None, (0.5, 2.0, 1.5)])
def test_terms_add_up_to_the_score_and_each_is_the_models_own(world, tmp_path, weights):
    folder = save_smlstm(tmp_path / "it", global_score=True, instance_score=True, term_weights=weights)
    (whole,) = matrices(world, folder, terms=False).values()
    found = matrices(world, folder, terms=True)
    assert list(found) == ["it", "it: steps", "it: global", "it: instances", "it: steps and instances"]
    np.testing.assert_allclose(found["it"], whole, atol=1e-5)
    attended = found["it: steps"] + found["it: instances"]
    np.testing.assert_allclose(found["it: steps and instances"], attended, atol=1e-6)
    np.testing.assert_allclose(found["it: global"], whole - attended, atol=1e-5)
    # Cosines, as much as they count.
    for part, weight in zip(("global", "instances"), (weights or (1, 1, 1))[1:], strict=True):
        assert 0 < np.abs(found[f"it: {part}"]).max() <= weight + 1e-5


def test_the_model_itself_stays_as_it_is(world, tmp_path):
    (candidate,) = load_candidates([save_smlstm(tmp_path / "it", global_score=True)])
    other = candidate.matcher.weighing((0.0, 1.0))
    assert candidate.matcher.term_weights == (1.0, 1.0) and other.term_weights == (0.0, 1.0)
    assert other.image_whole is candidate.matcher.image_whole


@pytest.mark.parametrize("save", [save_mnlm, save_smlstm])
def test_a_score_of_one_term_has_none_to_tell_apart(world, tmp_path, save):
    with pytest.raises(InputError, match="it has a score of one term"):
        plan(world, save(tmp_path / "it"), terms=True)
