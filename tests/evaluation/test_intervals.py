import numpy as np
import pytest

from smlstm.errors import InputError
from smlstm.evaluation import both_ways, compare, metric_intervals, ranks


def matrix(images=60, captions=3, signal=1.0, seed=0):
    """Scores in which the right pairs stand out by `signal`; the number of captions varies by image."""
    generator = np.random.default_rng(seed)
    image_of = np.repeat(np.arange(images), generator.integers(1, captions + 1, images))
    scores = generator.normal(size=(images, len(image_of)))
    scores[image_of, np.arange(len(image_of))] += signal
    return scores, image_of


def test_values_are_the_metrics():
    found = ranks(*matrix())
    intervals, expected = metric_intervals(found, draws=50), both_ways(found)
    for way, metrics in (("i2t", expected.annotation), ("t2i", expected.retrieval)):
        for name in ("r1", "r5", "r10", "median", "mean", "mrr"):
            assert intervals[f"{way}_{name}"].value == pytest.approx(getattr(metrics, name))
    assert intervals["sum"].value == pytest.approx(expected.sum)
    assert all(interval.low <= interval.value <= interval.high for interval in intervals.values())


def test_intervals_are_those_of_a_plain_bootstrap():
    found = ranks(*matrix())
    generator = np.random.default_rng(9)
    plain = {"sum": [], "t2i_mean": [], "t2i_median": [], "i2t_median": [], "t2i_mrr": []}
    for _ in range(3000):
        drawn = generator.integers(0, 60, 60)
        annotation = found.annotation[drawn]
        retrieval = np.concatenate([found.retrieval[found.retrieval_images == image] for image in drawn])
        plain["sum"].append(100 * sum((each <= k).mean() for each in (annotation, retrieval) for k in (1, 5, 10)))
        plain["t2i_mean"].append(retrieval.mean())
        plain["t2i_median"].append(np.median(retrieval))
        plain["i2t_median"].append(np.median(annotation))
        plain["t2i_mrr"].append((1 / retrieval).mean())
    ours = metric_intervals(found, draws=3000)
    for name, values in plain.items():
        low, high = np.quantile(values, [0.025, 0.975])
        assert ours[name].low == pytest.approx(low, abs=0.08 * (high - low) + 1e-9), name
        assert ours[name].high == pytest.approx(high, abs=0.08 * (high - low) + 1e-9), name


def test_captions_of_an_image_are_drawn_together():
    """Equal captions of an image add nothing: the interval is as wide as with one caption each."""
    scores, image_of = matrix(captions=1)
    once = metric_intervals(ranks(scores, image_of))["t2i_r5"]
    five = metric_intervals(ranks(np.repeat(scores, 5, axis=1), np.repeat(image_of, 5)))["t2i_r5"]
    assert (five.low, five.high) == pytest.approx((once.low, once.high))


def test_a_better_model_is_told_from_chance():
    scores, image_of = matrix(signal=1.0)
    better = scores.copy()
    better[image_of, np.arange(len(image_of))] += 1.0
    one, other = ranks(better, image_of), ranks(scores, image_of)
    found = compare(one, other)
    assert found.difference.value == pytest.approx(both_ways(one).sum - both_ways(other).sum)
    assert found.difference.low > 0
    assert found.p < 0.01


def test_p_is_uniform_where_there_is_no_difference():
    scores, image_of = matrix(signal=1.0)
    generator = np.random.default_rng(3)
    found = [
        compare(*(ranks(scores + generator.normal(size=scores.shape), image_of) for _ in range(2)), draws=300).p
        for _ in range(60)
    ]
    assert 0.3 < np.mean(found) < 0.7
    assert np.mean(np.array(found) < 0.05) < 0.2


def test_a_model_does_not_differ_from_itself():
    found = ranks(*matrix())
    assert compare(found, found).p == 1
    assert compare(found, found).difference.value == 0


def test_different_images_cannot_be_compared():
    with pytest.raises(InputError, match="same images and sentences"):
        compare(ranks(*matrix(seed=0)), ranks(*matrix(seed=1)))
