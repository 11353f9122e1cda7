"""Fitted probabilities are those of the pairs they were fitted to, for any prior."""

import numpy as np
import pytest

from smlstm.errors import InputError
from smlstm.pair.calibration import ScoredPairs, fit_calibration, reliability, weight_of


def made(images: int = 60, captions: int = 5, apart: float = 3.0, seed: int = 0):
    """Normal scores; matched pairs lie `apart` higher, so the true log-odds are a line with that slope."""
    rng = np.random.default_rng(seed)
    image_of = np.repeat(np.arange(images), captions)
    scores = rng.normal(size=(images, len(image_of))).astype(np.float32)
    scores[image_of, np.arange(len(image_of))] += apart
    return scores, image_of


def test_it_finds_the_true_line():
    pairs = ScoredPairs.of([made(images=200, seed=0), made(images=200, seed=1)])
    found = fit_calibration(pairs, 0.5, prior=0.01)
    assert found.scale == pytest.approx(3.0, rel=0.08)
    assert found.offset == pytest.approx(np.log(0.01 / 0.99) - 4.5, rel=0.08)
    assert found.shortlist_weight == 0.5


def test_probabilities_can_be_believed():
    pairs = ScoredPairs.of([made(images=200)])
    found = fit_calibration(pairs, 0.0)
    believed = reliability(pairs, found)
    assert believed.error < 0.002
    assert len(believed.expected) == len(believed.seen) and believed.expected == sorted(believed.expected)
    wrong = found.model_copy(update={"offset": found.offset + 4})
    assert reliability(pairs, wrong).error > 5 * believed.error


def test_a_higher_prior_makes_every_match_likelier():
    pairs = ScoredPairs.of([made()])
    rare, common = (fit_calibration(pairs, 0.0, prior=prior) for prior in (0.01, 0.5))
    assert all(common.probability(score) > rare.probability(score) for score in (-2.0, 0.0, 2.0, 5.0))


def test_matched_pairs_are_not_among_the_others():
    scores, image_of = made(images=4, captions=2)
    pairs = ScoredPairs.of([(scores, image_of)])
    assert len(pairs.matched) == 8 and pairs.counts.sum() == 4 * 8 - 8


def test_the_weight_makes_both_scores_as_wide():
    scores, _ = made()
    assert weight_of([scores], [4 * scores]) == pytest.approx(4.0, rel=1e-5)
    assert weight_of([np.ones((3, 3), np.float32)], [scores]) == 0.0


def test_a_model_that_has_not_learned_is_refused():
    with pytest.raises(InputError, match="has not learned to match"):
        fit_calibration(ScoredPairs.of([made(apart=-2.0)]), 0.0)


def test_dev_needs_mismatched_pairs():
    with pytest.raises(InputError, match="dev has too few images"):
        fit_calibration(ScoredPairs.of([made(images=1)]), 0.0)
