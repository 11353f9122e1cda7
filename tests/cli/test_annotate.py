import json
import re
from dataclasses import replace

import pytest
import torch
from tests.command_line import smlstm
from tests.search.made import CALIBRATION, draw, make_pair

from smlstm.model import SMLSTM, SMLSTMConfig
from smlstm.pair import load_pair
from smlstm.search.naming import known_phrases, ranked, shipped_phrases
from smlstm.text import Vocabulary, tokenise


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return make_pair(tmp_path_factory.mktemp("model"))


def test_annotate_ranks_own_sentences_as_score_does(tmp_path, model):
    (photo,) = draw(tmp_path, 1)
    sentences = ["a red circle", "two yellow stars", "a dog runs on the beach", "dog"]
    (tmp_path / "mine.txt").write_text("\n".join([*sentences, "", "a red circle", "..."]))
    options = ("--model", model, "--runtime", "torch", "--json")
    (named,) = json.loads(smlstm("annotate", photo, "--sentences", tmp_path / "mine.txt", *options).stdout)
    scored = json.loads(smlstm("score", photo, *sentences, *options).stdout)
    expected = sorted(scored, key=lambda row: -row["probability"])
    assert [each["sentence"] for each in named["sentences"]] == [row["sentence"] for row in expected]
    for each, row in zip(named["sentences"], expected, strict=True):
        assert each["score"] == pytest.approx(row["score"], abs=1e-4)
        assert each["probability"] == pytest.approx(row["probability"], abs=1e-4)
        assert row["probability"] == pytest.approx(CALIBRATION.probability(row["score"], row["sentence"]), abs=1e-6)


def test_the_likelier_sentence_comes_first_not_the_one_of_a_higher_score(model):
    pair = load_pair(model)
    sentences = ["dog", "a red circle above a blue square"]
    short, long = (pair.calibration.log_odds(torch.zeros(1, 1), [each]).item() for each in sentences)
    assert short > long, "the same score means more of a short sentence here"
    assert [each.sentence for each in ranked(pair, torch.tensor([0.0, 0.01]), sentences)] == sentences


def test_annotate_takes_the_shipped_phrases_and_shows_what_it_saw(tmp_path, model):
    photos = draw(tmp_path, 2)
    page = tmp_path / "seen.html"
    found = smlstm("annotate", *photos, "-k", 3, "--explain", page, "--model", model, "--runtime", "torch")
    assert found.returncode == 0, found.stderr
    lines = found.stdout.splitlines()
    assert [lines[0], lines[4]] == [str(photo) for photo in photos]
    phrases = shipped_phrases()
    assert all(re.fullmatch(r" *[\d.]+%  (.+)", line)[1] in phrases for line in (*lines[1:4], *lines[5:]))
    assert page.read_text().count("<h2>") == 6


def test_phrases_with_unknown_words_are_left_out(tmp_path):
    pair, phrases = load_pair(make_pair(tmp_path / "small")), shipped_phrases()
    words = Vocabulary.build(phrases[:40])
    found = known_phrases(replace(pair, reranker=knowing(words)))
    assert set(phrases[:40]) <= set(found) < set(phrases)
    assert all(not words.unknown_words([phrase]) for phrase in found)
    hardly = known_phrases(replace(pair, reranker=knowing(Vocabulary.build(["a dog running on the beach", "a fox"]))))
    assert hardly == phrases, "two phrases are no choice"


def knowing(words: Vocabulary) -> SMLSTM:
    widths = dict(region_width=1280, context_width=1280, regions=4, backbone="efficientnet-lite0", word_width=4)
    sizes = dict(sentence_width=4, attention_width=4, similarity_width=4, hidden_width=4)
    return SMLSTM(SMLSTMConfig(**widths, **sizes), words).eval()


def test_the_shipped_phrases_are_many_short_and_different():
    phrases = shipped_phrases()
    assert len(phrases) > 300 and len(set(phrases)) == len(phrases)
    assert all(1 <= len(tokenise(phrase)) < 9 and phrase == phrase.strip().lower() for phrase in phrases)


def test_score_prints_a_line_a_pair(tmp_path, model):
    photos = draw(tmp_path, 2)
    found = smlstm("score", *photos, "a red circle", "two yellow zebras", "--model", model, "--runtime", "torch")
    assert len(found.stdout.splitlines()) == 4
    assert re.match(r" *[\d.]+%  +-?[\d.]+  .*000.png  a red circle$", found.stdout.splitlines()[0])
    assert "has not learned: zebras" in found.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["annotate", "missing.jpg"], "there is no such file"),
        (["annotate", "PHOTO", "--sentences", "missing.txt"], "cannot be read"),
        (["score", "PHOTO", "..."], "has no words"),
        (["score", "PHOTO"], "there is no sentence"),
    ],
)
def test_what_cannot_be_done_is_a_sentence(tmp_path, model, arguments, message):
    (photo,) = draw(tmp_path, 1)
    found = smlstm(*[photo if each == "PHOTO" else each for each in arguments], "--model", model)
    assert found.returncode == 3 and message in found.stderr and "Traceback" not in found.stderr
