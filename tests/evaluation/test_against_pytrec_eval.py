"""The same numbers as trec_eval, which the field of information retrieval has used for thirty years."""

import numpy as np
import pytest
import pytrec_eval
from hypothesis import given
from hypothesis import strategies as st

from smlstm.evaluation import Metrics, both_ways, ranks

MEASURES = {"success", "recip_rank"}


def by_trec_eval(scores: np.ndarray, right: np.ndarray) -> tuple[float, float, float, float]:
    """R@1, R@5, R@10 and MRR of queries (rows) over candidates (columns).

    trec_eval orders ties by name. A right candidate that is lowered a little falls behind all wrong ones of its
    score and stays before all others: ties are counted against the model.
    """
    lowered = scores - np.where(right, 0.25, 0)
    asked = np.flatnonzero(right.any(1))
    judged = {f"q{q}": {f"d{d}": int(right[q, d]) for d in range(right.shape[1])} for q in asked}
    run = {f"q{q}": {f"d{d}": float(lowered[q, d]) for d in range(right.shape[1])} for q in asked}
    found = pytrec_eval.RelevanceEvaluator(judged, MEASURES).evaluate(run).values()
    hits = [100 * np.mean([query[f"success_{k}"] for query in found]) for k in (1, 5, 10)]
    return (*hits, np.mean([query["recip_rank"] for query in found]))


def ours(found: Metrics) -> tuple[float, float, float, float]:
    return found.r1, found.r5, found.r10, found.mrr


@given(st.integers(2, 20), st.integers(2, 40), st.integers(0, 2**32 - 1), st.sampled_from([1, 2, 6, 10_000]))
def test_hit_rates_and_reciprocal_ranks_are_those_of_trec_eval(images, sentences, seed, levels):
    """Whole numbers as scores: 10,000 levels have few ties, 6 and 2 many, 1 is all ties."""
    generator = np.random.default_rng(seed)
    scores = generator.integers(0, levels, (images, sentences)).astype(np.float32)
    image_of = generator.integers(0, images, sentences)  # any number of captions an image, also none
    right = image_of[None, :] == np.arange(images)[:, None]
    found = both_ways(ranks(scores, image_of))
    assert ours(found.annotation) == pytest.approx(by_trec_eval(scores, right), abs=1e-4)
    assert ours(found.retrieval) == pytest.approx(by_trec_eval(scores.T, right.T), abs=1e-4)


def test_continuous_scores_need_no_rule():
    generator = np.random.default_rng(0)
    scores = generator.permutation(60 * 300).reshape(60, 300).astype(np.float32)  # no two are equal
    image_of = np.repeat(np.arange(60), 5)
    right = image_of[None, :] == np.arange(60)[:, None]
    scores += 3000 * right
    found = both_ways(ranks(scores, image_of))
    assert ours(found.annotation) == pytest.approx(by_trec_eval(scores, right), abs=1e-4)
    assert ours(found.retrieval) == pytest.approx(by_trec_eval(scores.T, right.T), abs=1e-4)
    assert 0 < found.retrieval.r1 < 100


def test_chance_earns_credit_where_trec_eval_breaks_ties_by_name_and_none_here():
    scores, image_of = np.zeros((12, 12), np.float32), np.arange(12)
    judged = {f"q{q}": {f"d{q}": 1} for q in range(12)}
    run = {f"q{q}": {f"d{d}": 0.0 for d in range(12)} for q in range(12)}
    by_name = pytrec_eval.RelevanceEvaluator(judged, MEASURES).evaluate(run)
    assert sum(query["success_1"] for query in by_name.values()) == 1
    assert both_ways(ranks(scores, image_of)).sum == 0
