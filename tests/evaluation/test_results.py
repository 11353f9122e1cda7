import numpy as np
import pytest

from smlstm.evaluation import comparisons, evaluate_folds, measure
from tests.evaluation.made import noisy


def test_a_result_has_its_metrics_and_an_interval_around_sum():
    result = measure("one", *noisy(40, 3, 2.0, 0))
    content = result.to_dict()
    assert content["model"] == "one"
    assert content["sum"] == pytest.approx(result.intervals["sum"].value)
    low, high = content["intervals"]["sum"]
    assert low <= content["sum"] <= high
    assert set(content["annotation"]) == {"r1", "r5", "r10", "median", "mean", "mrr"}


def test_folds_are_measured_apart_and_their_images_drawn_together():
    scores, image_of = noisy(2000, 1, 3.0, 1)
    result = measure("folds", scores, image_of, "folds")
    assert result.metrics == evaluate_folds(scores, image_of)
    assert result.intervals["sum"].value == pytest.approx(result.metrics.sum), "equally many captions in every fold"
    assert len(result.ranks.annotation) == 2000
    assert result.ranks.retrieval.max() <= 1000
    assert np.array_equal(result.ranks.retrieval_images, np.arange(2000))


def test_each_is_tested_against_the_first_or_against_all():
    results = [measure(name, *noisy(30, 2, signal, 3)) for name, signal in (("a", 1.0), ("b", 1.5), ("c", 4.0))]
    assert [(each.one, each.other) for each in comparisons(results)] == [("b", "a"), ("c", "a")]
    every = comparisons(results, every_pair=True)
    assert [(each.one, each.other) for each in every] == [("b", "a"), ("c", "a"), ("c", "b")]
    best = every[1].to_dict()
    assert best["sum_difference"] == pytest.approx(results[2].metrics.sum - results[0].metrics.sum)
    assert best["p"] < 0.01 < best["interval"][0]
    assert comparisons(results[:1]) == []
