import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smlstm.errors import InputError
from smlstm.evaluation import metrics, ranks


def by_sorting(scores, image_of):
    """The definition, one query at a time, wrong candidates first among equals."""
    annotation, retrieval = [], []
    for i in range(scores.shape[0]):
        if i not in image_of:
            continue
        order = sorted(range(scores.shape[1]), key=lambda j: (-scores[i, j], image_of[j] == i))
        annotation.append(1 + next(place for place, j in enumerate(order) if image_of[j] == i))
    for j in range(scores.shape[1]):
        order = sorted(range(scores.shape[0]), key=lambda i: (-scores[i, j], image_of[j] == i))
        retrieval.append(1 + order.index(image_of[j]))
    return annotation, retrieval


@given(st.integers(1, 6), st.integers(1, 9), st.integers(0, 2**32 - 1), st.sampled_from([2, 5, 1000]))
def test_ranks_are_those_of_sorting_with_ties_against_the_model(images, sentences, seed, levels):
    generator = np.random.default_rng(seed)
    scores = generator.integers(0, levels, (images, sentences)).astype(float)
    image_of = generator.integers(0, images, sentences)
    found = ranks(scores, image_of)
    annotation, retrieval = by_sorting(scores, list(image_of))
    assert found.annotation.tolist() == annotation
    assert found.retrieval.tolist() == retrieval


@given(st.integers(11, 40), st.integers(1, 5))
def test_equal_scores_give_no_credit(images, captions):
    image_of = np.repeat(np.arange(images), captions)
    found = ranks(np.full((images, images * captions), 0.3), image_of)
    assert metrics(found.annotation).sum == 0
    assert metrics(found.retrieval).sum == 0


def test_chunks_change_nothing(monkeypatch):
    scores = np.random.default_rng(0).normal(size=(30, 70))
    image_of = np.random.default_rng(1).integers(0, 30, 70)
    whole = ranks(scores, image_of)
    monkeypatch.setitem(ranks.__globals__, "_CHUNK", 100)
    parts = ranks(scores, image_of)
    assert whole.annotation.tolist() == parts.annotation.tolist()
    assert whole.retrieval.tolist() == parts.retrieval.tolist()


def test_not_a_number_is_a_miss():
    scores = np.eye(12)
    scores[3, 3] = np.nan
    found = ranks(scores, np.arange(12))
    assert found.annotation[3] == 12
    assert found.retrieval[3] == 12
    scores = np.eye(12)
    scores[3, 4] = np.nan
    found = ranks(scores, np.arange(12))
    assert found.annotation[3] == 2, "a wrong candidate that is not a number counts against the image"
    assert found.retrieval[4] == 2
    scores = np.repeat(np.eye(3), 2, axis=1)
    scores[0, 0] = np.nan
    assert ranks(scores, np.repeat(np.arange(3), 2)).annotation[0] == 1, "its other caption still finds it"


def test_metrics_of_known_ranks():
    found = metrics(np.array([1, 2, 6, 11]))
    assert (found.r1, found.r5, found.r10) == (25, 50, 75)
    assert (found.median, found.mean) == (4, 5)
    assert found.mrr == pytest.approx((1 + 1 / 2 + 1 / 6 + 1 / 11) / 4)
    assert found.sum == 150


def test_bad_input_is_named():
    with pytest.raises(InputError, match="need 3 image positions"):
        ranks(np.zeros((2, 3)), np.array([0, 1]))
    with pytest.raises(InputError, match="outside the 2 rows"):
        ranks(np.zeros((2, 3)), np.array([0, 1, 2]))
    with pytest.raises(InputError, match="nothing to measure"):
        metrics(np.array([], dtype=np.int64))
