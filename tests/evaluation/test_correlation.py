import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from smlstm.evaluation.correlation import correlation

few = st.integers(0, 4).map(float)
points = st.lists(st.tuples(st.one_of(few, st.floats(-10, 10, width=32)), few), min_size=2, max_size=60)


@given(points)
def test_the_numbers_are_scipys(drawn):
    scores, ratings = np.array(drawn, dtype=np.float64).T
    if np.ptp(scores) == 0 or np.ptp(ratings) == 0:
        return
    found = correlation(scores, ratings)
    assert found.kendall_b == pytest.approx(stats.kendalltau(scores, ratings, variant="b").statistic, abs=1e-12)
    assert found.kendall_c == pytest.approx(stats.kendalltau(scores, ratings, variant="c").statistic, abs=1e-12)
    assert found.spearman == pytest.approx(stats.spearmanr(scores, ratings).statistic, abs=1e-12)


def test_as_many_ratings_as_the_literature_has():
    rng = np.random.default_rng(0)
    ratings = rng.integers(0, 4, 50_000) / 3
    scores = (ratings + rng.normal(size=50_000)).astype(np.float32)
    found = correlation(scores, ratings)
    assert found.kendall_c == pytest.approx(stats.kendalltau(scores, ratings, variant="c").statistic, abs=1e-12)
    assert found.spearman == pytest.approx(stats.spearmanr(scores, ratings).statistic, abs=1e-12)
