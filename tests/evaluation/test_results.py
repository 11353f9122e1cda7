import numpy as np
import pytest

from smlstm.evaluation import comparisons, measure
from tests.evaluation.made import noisy
from tests.evaluation.test_protocols import evaluate_folds


def test_a_result_has_its_metrics_and_an_interval_around_sum():
    result = measure("one", *noisy(40, 3, 2.0, 0))
    content = result.to_dict()
    assert content["model"] == "one"
    assert content["sum"] == pytest.approx(result.intervals["sum"].value)
    low, high = content["intervals"]["sum"]
    assert low <= content["sum"] <= high
    assert set(content["annotation"]) == {"r1", "r5", "r10", "median", "mean", "mrr"}


def unequal_folds(signal, seed):
    """Two folds: in the first every image has one caption, in the second five, which are harder to tell."""
    image_of = np.concatenate([np.arange(1000), np.repeat(np.arange(1000, 2000), 5)])
    scores = np.random.default_rng(seed).normal(size=(2000, len(image_of))).astype(np.float32)
    scores[image_of, np.arange(len(image_of))] += np.where(image_of < 1000, signal + 1, signal)
    return scores, image_of


def test_intervals_and_tests_of_folds_belong_to_the_means_over_folds():
    """Also where folds have different numbers of captions, so that a mean over folds is not one over captions."""
    scores, image_of = unequal_folds(2.0, 1)
    result, better = (measure(name, *unequal_folds(signal, 1), "folds") for name, signal in (("a", 2.0), ("b", 2.5)))
    assert result.metrics == evaluate_folds(scores, image_of)
    assert [len(fold.retrieval) for fold in result.folds] == [1000, 5000]
    for way, found in (("i2t", result.metrics.annotation), ("t2i", result.metrics.retrieval)):
        for name in ("r1", "r5", "r10", "median", "mean", "mrr"):
            interval = result.intervals[f"{way}_{name}"]
            assert interval.value == pytest.approx(getattr(found, name))
            assert interval.low <= interval.value <= interval.high
    whole = result.intervals["sum"]
    assert whole.value == pytest.approx(result.metrics.sum)
    assert whole.low < result.metrics.sum < whole.high
    (test,) = comparisons([result, better])
    assert test.found.difference.value == pytest.approx(better.metrics.sum - result.metrics.sum)
    assert test.found.difference.low < test.found.difference.value < test.found.difference.high


def test_each_is_tested_against_the_first_or_against_all():
    results = [measure(name, *noisy(30, 2, signal, 3)) for name, signal in (("a", 1.0), ("b", 1.5), ("c", 4.0))]
    assert [(each.one, each.other) for each in comparisons(results)] == [("b", "a"), ("c", "a")]
    every = comparisons(results, every_pair=True)
    assert [(each.one, each.other) for each in every] == [("b", "a"), ("c", "a"), ("c", "b")]
    best = every[1].to_dict()
    assert best["sum_difference"] == pytest.approx(results[2].metrics.sum - results[0].metrics.sum)
    assert best["p"] < 0.01 < best["interval"][0]
    assert comparisons(results[:1]) == []
