"""Fitted probabilities are those of the pairs they were fitted to, for any prior."""

import numpy as np
import pytest
import torch

from smlstm.errors import InputError
from smlstm.pair.calibration import (
    Calibration,
    ScoredPairs,
    fit_calibration,
    one_each,
    reliability,
    weight_of,
    words_that_say,
)

LONG = "a brown dog runs on a wide sandy beach near blue water"


def made(images: int = 60, captions: int = 5, apart: float = 3.0, seed: int = 0, sentence: str = LONG):
    """Normal scores; matched pairs lie `apart` higher, so the true log-odds are a line with that slope."""
    rng = np.random.default_rng(seed)
    image_of = np.repeat(np.arange(images), captions)
    scores = rng.normal(size=(images, len(image_of))).astype(np.float32)
    scores[image_of, np.arange(len(image_of))] += apart
    return scores, one_each(image_of, images), [sentence] * len(image_of)


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
    assert all(common.probability(score, LONG) > rare.probability(score, LONG) for score in (-2.0, 0.0, 2.0, 5.0))


def test_matched_pairs_are_not_among_the_others():
    pairs = ScoredPairs.of([made(images=4, captions=2)])
    assert len(pairs.matched) == 8 and pairs.counts.sum() == 4 * 8 - 8


def test_the_weight_makes_both_scores_as_wide():
    scores = made()[0]
    assert weight_of([scores], [4 * scores]) == pytest.approx(4.0, rel=1e-5)
    assert weight_of([np.ones((3, 3), np.float32)], [scores]) == 0.0


def test_a_model_that_has_not_learned_is_refused():
    with pytest.raises(InputError, match="has not learned to match"):
        fit_calibration(ScoredPairs.of([made(apart=-2.0)]), 0.0)


def test_dev_needs_mismatched_pairs():
    with pytest.raises(InputError, match="dev has too few images"):
        fit_calibration(ScoredPairs.of([made(images=1)]), 0.0)


def test_what_a_score_says_depends_on_how_much_the_sentence_says():
    pairs = ScoredPairs.of(
        [
            made(images=200, apart=4.0),
            made(images=200, apart=1.5, seed=1, sentence="a dog"),
            made(images=200, apart=2.5, seed=2, sentence="a brown dog"),
        ]
    )
    found = fit_calibration(pairs, 0.0)
    assert found.scale + found.short_scale / 8 > found.scale + found.short_scale
    for apart, sentence in ((4.0, LONG), (2.5, "a brown dog"), (1.5, "dog")):
        # Half of such pairs match where the two normal densities, weighted by the prior, are equal.
        even = apart / 2 + np.log(99) / apart
        assert found.probability(even, sentence) == pytest.approx(0.5, abs=0.12), sentence
    assert reliability(pairs, found).error < 0.004
    scores = torch.tensor([[0.5, 2.0, 4.0]], dtype=torch.float64)
    said = ["dog", "a brown dog", LONG]
    logs = torch.sigmoid(found.log_odds(scores, said))[0].tolist()
    assert logs == pytest.approx([found.probability(s, t) for s, t in zip(scores[0].tolist(), said, strict=True)])


def test_articles_change_nothing():
    found = Calibration(scale=2.0, offset=-1.0, short_scale=3.0, short_offset=0.5)
    assert found.probability(0.3, "dog") == found.probability(0.3, "a dog") == found.probability(0.3, "the dog")
    assert found.probability(0.3, "dog") != found.probability(0.3, "a brown dog")
    assert words_that_say("of the") == 1 and words_that_say(LONG) == 8


def test_a_calibration_by_which_a_higher_score_is_unlikelier_is_refused():
    with pytest.raises(ValueError, match="scale and short_scale together must be above 0"):
        Calibration(scale=1.0, short_scale=-1.5)


def test_sentences_of_each_length_count_alike_however_many_there_are():
    few, many = made(images=150, apart=2.0, sentence="dog"), made(images=150, captions=1, apart=4.0)
    third = made(images=150, captions=1, apart=3.0, seed=3, sentence="a brown dog")
    found = fit_calibration(ScoredPairs.of([few, many, third]), 0.0)
    again = fit_calibration(ScoredPairs.of([few, *[many] * 9, third]), 0.0)
    assert again.probability(2.0, "dog") == pytest.approx(found.probability(2.0, "dog"), rel=1e-3)
    assert again.probability(2.0, LONG) == pytest.approx(found.probability(2.0, LONG), rel=1e-3)


def test_a_sentence_may_be_right_for_many_images():
    scores = np.array([[3.0], [2.0], [0.0], [-1.0]], np.float32)
    relevant = np.array([[True], [True], [False], [False]])
    pairs = ScoredPairs.of([(scores, relevant, ["dog"])])
    assert sorted(pairs.matched.tolist()) == [2.0, 3.0] and pairs.counts.sum() == 2
    assert set(pairs.matched_words) == set(pairs.others_words) == {1.0}


def test_where_lines_by_length_do_not_fit_one_line_serves_all():
    sets = [
        made(images=200, apart=apart, seed=seed, sentence=sentence)
        for seed, (apart, sentence) in enumerate([(4.5, "dog"), (3.0, "brown dog"), (1.2, "big brown dog")])
    ]
    found = fit_calibration(ScoredPairs.of(sets), 0.0)
    assert found.short_scale == found.short_offset == 0 and found.scale > 0


def test_without_pairs_of_both_kinds_it_is_said():
    empty = ScoredPairs.of([(np.zeros((3, 0), np.float32), np.zeros((3, 0), np.bool_), [])])
    assert not empty.both
    with pytest.raises(InputError, match="dev has too few images"):
        fit_calibration(empty, 0.0)
