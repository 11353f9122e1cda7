"""The words of the report follow from its numbers."""

from types import SimpleNamespace

import numpy as np
import pytest

from smlstm.evaluation import measure
from smlstm.reproduce import make_plan, read_reproduce_config
from smlstm.reproduce.findings import centre_verdict, findings, findings_table, paragraphs, removal_verdict
from smlstm.reproduce.measurements import Measured
from smlstm.reproduce.paper import paper_sum, paper_table
from smlstm.reproduce.report_tables import (
    Found,
    baselines_table,
    difference_text,
    paper_tables,
    readings_table,
    sweep_table,
)
from tests.evaluation.made import noisy

STRENGTH = {"mnlm": 1.0, "mean": 1.0, "att": 2.0, "ctx": 2.0, "smlstm": 3.5, "ensemble": 3.5}
STRENGTH |= {"steps-1": 5.0, "lambda-100": 3.5, "scan": 1.0, "joint": 3.5}


@pytest.fixture
def found(recipe) -> Found:
    """Runs whose matrices have the right pairs standing out more or less; equal strengths are the same matrix."""
    measured = {}
    for name, strength in STRENGTH.items():
        scores, image_of = noisy(120, 2, strength, seed=round(10 * strength))
        measured[name] = Measured(measure(name, scores, image_of), "made", 2.0, scores.size, 10**6)
    return Found(make_plan(read_reproduce_config(recipe)), measured, {}, {})


def test_statements_agree_disagree_or_stay_undecided_by_their_intervals(found):
    verdicts = {each.text: each.verdict for each in findings(found)}
    assert verdicts == {
        "sm-LSTM-att above sm-LSTM-mean": "agrees",
        "sm-LSTM-ctx above sm-LSTM-att": "undecided",
        "sm-LSTM above sm-LSTM-ctx": "agrees",
        "sm-LSTM* above sm-LSTM": "undecided",
        "sm-LSTM above MNLM": "agrees",
        "T = 3 above T = 1": "disagrees",
        "lambda = 100 above lambda = 1": "undecided",
    }
    for each in findings(found):
        low, high = each.ours.difference.low, each.ours.difference.high
        assert {"agrees": low > 0, "disagrees": high < 0, "undecided": low <= 0 <= high}[each.verdict]


def test_the_paragraph_counts_them_and_names_what_the_paper_does_not_have(found):
    judged = findings(found)
    first, order, beyond = paragraphs(found, judged)
    assert "make 7 statements" in first
    assert "Agrees (3): sm-LSTM-att above sm-LSTM-mean;" in first
    assert "Disagrees (1): T = 3 above T = 1." in first
    assert order.index("mean") > order.index("full") > 0
    assert "scan -" in beyond and "worse" in beyond and "joint" in beyond
    row = findings_table(judged).rows[0]
    assert row[1] == "+9.6 on Flickr30k, +27.6 on COCO"
    assert row[2] == difference_text(found.difference("att", "mean"))
    assert paragraphs(Found(found.plan, {}, {}, {}), []) == ["Nothing can be compared yet: no two runs were measured."]


def test_ours_stand_in_the_rows_of_the_papers_methods(found):
    flickr, coco = paper_tables(found)
    rows = {row[0]: row for row in flickr.rows}
    assert rows["sm-LSTM"][1:6] == ["42.4 / 67.5 / 79.9", "2.0", "28.2 / 57.0 / 68.4", "4.0", "343.4"]
    assert rows["sm-LSTM"][10] == f"{found.measured['smlstm'].result.metrics.sum:.1f}"
    assert rows["sm-LSTM*"][10] == f"{found.measured['ensemble'].result.metrics.sum:.1f}"
    assert rows["m-RNN"][6:] == ["-"] * 6
    assert len(flickr.rows) == 18 and len(coco.rows) == 14
    assert all(len(row) == len(flickr.columns) for row in flickr.rows)
    steps = sweep_table(found, "steps")
    assert [row[0] for row in steps.rows] == [f"T = {number}" for number in range(1, 6)]
    assert [row[4] == "-" for row in steps.rows] == [False, True, False, True, True]
    assert [row[0] for row in readings_table(found).rows] == [
        "modulation gated (base)", "modulation joint", "comparison product (base)",
    ]  # fmt: skip
    baselines = {row[0]: row for row in baselines_table(found).rows}
    assert baselines["SCAN"][-1] == difference_text(found.difference("scan", "smlstm"))
    assert baselines["VSE++"][1:] == ["-"] * 7


def test_the_papers_sums_are_those_printed():
    for table in ("flickr30k", "coco_1k"):
        for row in paper_table(table):
            if row.sum is not None:
                assert sum(row.rates) == pytest.approx(row.sum, abs=0.11), "but for rounding"
    assert paper_sum("flickr30k_timesteps", "3") == pytest.approx(paper_sum("flickr30k", "sm-LSTM"))
    assert paper_sum("flickr30k_lambda", "100") == pytest.approx(paper_sum("flickr30k", "sm-LSTM"))


@pytest.mark.parametrize(
    ("shares", "told"),
    [
        ([0.25, 0.2, 0.2], "the first step does not prefer the centre"),
        ([0.4, 0.3, 0.3], "as in the paper"),
        ([0.4, 0.3, 0.395], "the first step prefers the centre, but not every later one does so less"),
        ([0.4], "its one step prefers the centre"),
    ],
)
def test_centre_bias_in_words(shares, told):
    assert centre_verdict(shares) == told


def test_a_difference_of_nothing_has_no_sign(found):
    same = found.measured["att"]
    equal = Found(found.plan, {"att": same, "mean": same}, {}, {})
    assert difference_text(equal.difference("att", "mean")) == "+0.0 (+0.0 to +0.0)"
    assert equal.difference("att", "att") is None
    assert np.isclose(same.pairs_per_second, 120 * 240 / 2)


def test_removal_says_nothing_where_the_regions_add_nothing():
    def curve(low, high, relative):
        return {"difference": {"value": (low + high) / 2, "low": low, "high": high}, "relative": relative}

    seen = {"removal": [
        {"filler": "mean", "deletion": curve(-0.3, -0.1, None)},
        {"filler": "zero", "deletion": curve(0.1, 0.3, 0.2)},
    ]}  # fmt: skip
    told = removal_verdict(SimpleNamespace(attention={"full": seen}))
    assert "hurts the score of full (filler zero) more than random ones." in told
    assert "say nothing about full (filler mean): an image of which all is removed" in told
