import numpy as np
import pytest

from smlstm.errors import InputError
from smlstm.evaluation import both_ways, ranks
from smlstm.evaluation.protocols import FOLD, fold_ranks, mean_of


def evaluate_all(scores, image_of):
    """Every image against every sentence."""
    return both_ways(ranks(scores, image_of))


def evaluate_folds(scores, image_of, fold=FOLD):
    """Means over consecutive folds of images."""
    return mean_of([both_ways(part) for part in fold_ranks(scores, image_of, fold)])


def test_folds_are_means_of_folds_ranked_on_their_own():
    generator = np.random.default_rng(0)
    image_of = np.sort(generator.integers(0, 40, 150))
    scores = generator.normal(size=(40, 150))
    found = evaluate_folds(scores, image_of, fold=10)
    parts = []
    for start in range(0, 40, 10):
        inside = (image_of >= start) & (image_of < start + 10)
        parts.append(evaluate_all(scores[start : start + 10, inside], image_of[inside] - start))
    assert found.annotation.r5 == pytest.approx(np.mean([part.annotation.r5 for part in parts]))
    assert found.retrieval.median == pytest.approx(np.mean([part.retrieval.median for part in parts]))
    assert found.sum == pytest.approx(np.mean([part.sum for part in parts]))


def test_one_fold_is_all():
    scores, image_of = np.random.default_rng(1).normal(size=(10, 20)), np.repeat(np.arange(10), 2)
    assert evaluate_folds(scores, image_of, fold=10) == evaluate_all(scores, image_of)


def test_images_are_never_dropped():
    with pytest.raises(InputError, match="15 images cannot be cut into folds of 10"):
        evaluate_folds(np.zeros((15, 15)), np.arange(15), fold=10)
