import numpy as np
import pytest

from smlstm.data import open_dataset
from smlstm.evaluation.evaluate import Evaluation, judge, report
from smlstm.evaluation.feature_plan import plan_features
from smlstm.evaluation.judgement import correlate, read_judgements
from smlstm.evaluation.matrices import Sum
from smlstm.evaluation.models import load_candidates
from tests.evaluation.made import save_mnlm, save_smlstm, write_scenes


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    return write_scenes(tmp_path_factory.mktemp("world"))


@pytest.fixture(scope="module")
def candidates(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    return load_candidates([save_mnlm(folder / "mnlm"), save_smlstm(folder / "full")])


@pytest.fixture(scope="module")
def evaluation(world, candidates):
    return Evaluation.plan(candidates, open_dataset(world / "captions.csv"), "dev", features=world / "features")


@pytest.mark.parametrize("ensemble", ["sum", "standardised"])
def test_the_ensembles_row_is_that_of_the_summed_matrices(evaluation, ensemble):
    total = Sum(ensemble == "standardised")
    for _, scores in evaluation.score():
        total.add(scores)
    found = report(evaluation.score(), evaluation.gallery, ensemble=ensemble)
    alone = report([("sum", total.scores)], evaluation.gallery)
    assert found.results[-1].metrics == alone.results[0].metrics
    assert len(alone.results) == 1
    assert alone.comparisons == []


def test_rated_pairs_have_the_scores_of_the_whole_matrix(world, candidates, evaluation, tmp_path, monkeypatch):
    chosen = [(4, 9), (9, 4), (4, 7), (15, 8), (6, 12)]
    path = tmp_path / "ratings.txt"
    path.write_text(
        "".join(f"{i:03}.png\t{j:03}.png#1\t{1 + k % 4}\t1\t{4 - k % 3}\n" for k, (i, j) in enumerate(chosen))
    )
    dataset = open_dataset(world / "captions.csv")
    rated = read_judgements(path, "expert", dataset)
    plans = plan_features(candidates, dataset, rated.records, features=world / "features")
    whole = dict(evaluation.score())
    monkeypatch.setattr("smlstm.evaluation.evaluate.score_all", None)
    found = judge(candidates, rated, plans)
    rows, columns = np.array([(i - 4, 2 * (j - 4) + 1) for i, j in chosen]).T  # rows and captions of the dev split
    for name, matrix in whole.items():
        assert vars(found[name]) == pytest.approx(vars(correlate(matrix[rows, columns], rated)))
    added = whole["mnlm"][rows, columns] + whole["full"][rows, columns]
    assert vars(found["sum of 2"]) == pytest.approx(vars(correlate(added, rated)))
