from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from smlstm.data import Dataset, Record
from smlstm.errors import InputError
from smlstm.evaluation.judgement import correlate, read_judgements

EXPERT = "a.jpg\tb.jpg#0\t1\t1\t2\n\na.jpg\ta.jpg#1\t4\t4\t4\nb.jpg\tc.jpg#1\t3\t2\t4\nc.jpg\tb.jpg#0\t1\t1\t1\n"
CROWD = "a.jpg\tb.jpg#0\t0.333333333333\t1\t2\na.jpg\ta.jpg#1\t1\t3\t0\nc.jpg\tb.jpg#1\t0\t0\t3\n"


@pytest.fixture
def dataset() -> Dataset:
    captions = {"a": ("a dog", "the dog"), "b": ("a cat", "the cat"), "c": ("a man", "the man", "...")}
    splits = {"a": "train", "b": "dev", "c": "test"}
    records = [Record(f"{key}.jpg", Path(f"{key}.jpg"), each, splits[key]) for key, each in captions.items()]
    return Dataset("made", Path("/made"), tuple(records))


def write(folder: Path, text: str) -> Path:
    path = folder / "ratings.txt"
    path.write_text(text, encoding="utf-8")
    return path


def test_experts_ratings_are_all_kept_and_own_captions_left_out(tmp_path, dataset):
    found = read_judgements(write(tmp_path, EXPERT), "expert", dataset)
    assert [record.key for record in found.records] == ["a.jpg", "b.jpg", "c.jpg"]
    assert found.captions == ("a cat", "the man")
    assert found.pairs.tolist() == [[0, 0], [1, 1], [2, 0]]
    assert found.ratings.tolist() == [[1, 1, 2], [3, 2, 4], [1, 1, 1]]
    assert found.own == 1


def test_the_crowds_share_is_one_rating(tmp_path, dataset):
    found = read_judgements(write(tmp_path, CROWD), "crowd", dataset)
    assert found.captions == ("a cat", "the cat")
    assert found.ratings.ravel() == pytest.approx([1 / 3, 0])
    assert found.own == 1


def by_counting(scores, ratings):
    """Kendall's tau-b and tau-c as defined, pair by pair of data points."""
    agree = tied_scores = tied_ratings = 0
    pairs = list(combinations(range(len(scores)), 2))
    for i, j in pairs:
        agree += np.sign(scores[i] - scores[j]) * np.sign(ratings[i] - ratings[j])
        tied_scores += scores[i] == scores[j]
        tied_ratings += ratings[i] == ratings[j]
    tau_b = agree / np.sqrt((len(pairs) - tied_scores) * (len(pairs) - tied_ratings))
    smaller = min(len(set(scores)), len(set(ratings)))
    return tau_b, 2 * agree / (len(scores) ** 2 * (smaller - 1) / smaller)


def test_correlation_counts_every_rating_as_a_data_point(tmp_path, dataset):
    judgements = read_judgements(write(tmp_path, EXPERT), "expert", dataset)
    scores = np.array([0.4, 0.3, -0.5], np.float32)
    found = correlate(scores, judgements)
    tau_b, tau_c = by_counting(np.repeat(scores, 3), judgements.ratings.ravel())
    assert (found.kendall_b, found.kendall_c) == pytest.approx((tau_b, tau_c))
    places_of_scores = [8, 8, 8, 5, 5, 5, 2, 2, 2]  # ties share their mean place
    places_of_ratings = [3, 3, 6.5, 8, 6.5, 9, 3, 3, 3]  # of 1 1 2, 3 2 4, 1 1 1
    assert found.spearman == pytest.approx(np.corrcoef(places_of_scores, places_of_ratings)[0, 1])


def test_better_scores_agree_more(tmp_path, dataset):
    judgements = read_judgements(write(tmp_path, EXPERT), "expert", dataset)
    means = judgements.ratings.mean(1)
    assert correlate(means, judgements).kendall_c > 0.5
    assert correlate(-means, judgements).kendall_c == pytest.approx(-correlate(means, judgements).kendall_c)
    assert correlate(means**3, judgements) == correlate(means, judgements), "only the order of scores counts"


def test_equal_scores_agree_with_nobody(tmp_path, dataset):
    judgements = read_judgements(write(tmp_path, EXPERT), "expert", dataset)
    assert np.isnan(correlate(np.ones(3), judgements).kendall_b)
    with pytest.raises(InputError, match="3 rated pairs need 3 scores"):
        correlate(np.ones(4), judgements)
    with pytest.raises(InputError, match="not a finite number"):
        correlate(np.array([1, np.nan, 2]), judgements)


@pytest.mark.parametrize(
    ("kind", "text", "message"),
    [
        (
            "expert",
            "a.jpg\tb.jpg#0\t1\t1\t2\nx.jpg\tb.jpg#0\t1\t1\t1\n",
            'line 2: image "x.jpg" is in no split of /made',
        ),
        ("expert", "a.jpg\tx.jpg#0\t1\t1\t2\nx.jpg\tb.jpg#0\t1\t1\t1\n", r"and 1 more lines name what is not there"),
        ("expert", "a.jpg\tb.jpg#2\t1\t1\t2\n", 'line 1: caption "b.jpg#2" is in no split'),
        ("expert", "a.jpg\tb.jpg#0\t1\t5\t2\n", 'line 1: "5" is no expert rating: expected 1, 2, 3 or 4'),
        ("expert", "a.jpg\tb.jpg#0\t1\t1.5\t2\n", '"1.5" is no expert rating'),
        ("expert", "a.jpg\tb.jpg#0\t1\t1\n", "line 1: 4 columns; expected 5 between tabs: image, caption-id and three"),
        ("expert", "a.jpg b.jpg#0 1 1 2\n", "line 1: 1 columns; expected 5 between tabs"),
        ("expert", "a.jpg\tb.jpg\t1\t1\t2\n", 'line 1: "b.jpg" is no caption-id: expected image#number'),
        ("expert", "a.jpg\tc.jpg#2\t1\t1\t2\n", 'caption "c.jpg#2" has no words'),
        ("expert", "a.jpg\ta.jpg#0\t1\t1\t2\n", "every caption is its image's own"),
        ("expert", "\n", "has no ratings"),
        ("crowd", "a.jpg\tb.jpg#0\t1.5\t1\t1\n", 'line 1: "1.5" is no share of yes'),
        ("crowd", "a.jpg\tb.jpg#0\tnan\t1\t1\n", '"nan" is no share of yes'),
        ("crowd", "a.jpg\tb.jpg#0\t0.5\t-1\t1\n", '"-1" is no count of answers'),
    ],
)
def test_bad_files_are_refused_by_line(tmp_path, dataset, kind, text, message):
    with pytest.raises(InputError, match=message):
        read_judgements(write(tmp_path, text), kind, dataset)


def test_a_file_that_is_not_there(tmp_path, dataset):
    with pytest.raises(InputError, match="cannot be read"):
        read_judgements(tmp_path / "none.txt", "expert", dataset)
