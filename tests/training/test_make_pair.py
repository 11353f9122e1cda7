"""A run that ends in a pair: calibrated on all of dev, half as large, used as it was measured."""

import json

import numpy as np
import pytest
import torch

from smlstm import Matcher
from smlstm.errors import ConfigurationError
from smlstm.evaluation import metrics, ranks
from smlstm.pair import load_pair
from smlstm.training import read_config, train
from smlstm.training.read_examples import read_examples
from tests.training.conftest import write_scenes
from tests.training.test_run import Listener


@pytest.fixture
def paired(recipe):
    recipe.write_text(recipe.read_text(encoding="utf-8") + "\n[pair]\n", encoding="utf-8")
    return recipe


LEARN = ["stage.mnlm.epochs=12", "stage.mnlm.learning_rate=0.02", "stage.smlstm.epochs=4"]


def test_a_run_leaves_a_pair(paired, tmp_path):
    listener = Listener()
    config = read_config(paired, LEARN)
    train(config, tmp_path / "run", watcher=listener)
    pair = load_pair(tmp_path / "run" / "pair")
    assert pair.calibrated and pair.shortlist.kind == "mnlm" and pair.reranker.kind == "sm-lstm"
    measured = json.loads((tmp_path / "run" / "pair" / "calibration.json").read_text())["measured"]
    assert measured["dev"]["captions.csv"]["images"] == 24 and measured["dev"]["captions.csv"]["sum"]["pair"] > 150
    assert any("as a pair" in notice for notice in listener.notices)
    sizes = {
        name: (tmp_path / "run" / name / "model.safetensors").stat().st_size
        for name in ("smlstm/model", "pair/reranker")
    }
    assert sizes["pair/reranker"] < 0.7 * sizes["smlstm/model"]

    _, dev, _ = read_examples(config.data)
    features = dev.images.read(np.arange(24))
    whole = Matcher.from_pretrained(tmp_path / "run" / "pair")
    with torch.inference_mode():
        scores = whole.score(whole.encode_images(features), whole.encode_sentences(dev.captions)).numpy()
    found = ranks(scores, dev.image_of)
    total = metrics(found.annotation).sum + metrics(found.retrieval).sum
    assert total == pytest.approx(measured["dev"]["captions.csv"]["sum"]["pair"], abs=0.01), "used as measured"
    likely = torch.sigmoid(pair.calibration.log_odds(torch.from_numpy(scores), dev.captions)).numpy()
    assert likely[dev.image_of, np.arange(len(dev))].mean() > likely.mean()
    assert set(measured["dev"]["captions.csv"]["reliability"]) == {"captions", "short sentences"}


def test_a_reranker_that_finds_its_own_candidates_is_the_pairs_score(paired, tmp_path):
    paired.write_text(paired.read_text(encoding="utf-8") + 'shortlist = "smlstm"\n', encoding="utf-8")
    config = read_config(paired, [*LEARN, "stage.smlstm.model.global_score=true"])
    train(config, tmp_path / "run")
    pair = load_pair(tmp_path / "run" / "pair")
    measured = json.loads((tmp_path / "run" / "pair" / "calibration.json").read_text())["measured"]["dev"]
    sums = measured["captions.csv"]["sum"]
    assert sums == {"reranker": sums["pair"], "pair": sums["pair"], "models": {"smlstm": sums["pair"]}}
    assert pair.shortlist is None and pair.calibration.shortlist_weight == 0
    _, dev, _ = read_examples(config.data)
    features = dev.images.read(np.arange(24))
    with torch.inference_mode():
        images = pair.reranker.encode_images(features)
        searched = pair.score(pair.embed_images(features), images, dev.captions).numpy()
        alone = pair.reranker.score(images, pair.reranker.encode_sentences(dev.captions)).numpy()
    np.testing.assert_allclose(searched, alone, atol=1e-4)
    assert Matcher.from_pretrained(tmp_path / "run" / "pair").kind == "sm-lstm"


def test_terms_count_as_dev_wants_them(paired, tmp_path):
    paired.write_text(paired.read_text(encoding="utf-8") + 'shortlist = "smlstm"\nfit_terms = true\n', encoding="utf-8")
    listener = Listener()
    terms = ["stage.smlstm.model.global_score=true", "stage.smlstm.model.instance_score=true"]
    train(read_config(paired, [*LEARN, *terms]), tmp_path / "run", watcher=listener)
    pair = load_pair(tmp_path / "run" / "pair")
    weights = pair.reranker.config.term_weights
    assert len(weights) == 3 and max(weights) == 1.0 and min(weights) >= 0.01
    assert any(notice.startswith("the terms of smlstm count ") for notice in listener.notices)
    assert Matcher.load(tmp_path / "run" / "smlstm" / "model").config.term_weights is None, (
        "the stage's own model stays as it is"
    )


def test_one_term_needs_no_weights(paired):
    with pytest.raises(ConfigurationError, match="pair.fit_terms: the score of smlstm has one term"):
        read_config(paired, ["pair.fit_terms=true"])


def test_it_waits_for_all_stages(paired, tmp_path):
    train(read_config(paired, LEARN), tmp_path / "run", stages=["mnlm"])
    assert not (tmp_path / "run" / "pair").exists()
    train(read_config(paired, LEARN), tmp_path / "run", stages=["smlstm"])
    before = (tmp_path / "run" / "mnlm" / "metrics.jsonl").read_bytes()
    first = (tmp_path / "run" / "pair" / "calibration.json").read_bytes()
    train(read_config(paired, LEARN), tmp_path / "run")
    assert (tmp_path / "run" / "mnlm" / "metrics.jsonl").read_bytes() == before, "nothing is trained twice"
    assert (tmp_path / "run" / "pair" / "calibration.json").read_bytes() == first


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("pair.reranker=scan", 'pair.reranker: there is no stage "scan"; this run has mnlm, smlstm'),
        ("pair.shortlist=smlstm", "a shortlist needs unit vectors: mnlm or vse\\+\\+, or the reranker itself"),
        ("pair.halves=true", "there is no such setting"),
    ],
)
def test_a_pair_that_cannot_be_is_refused_before_training(paired, tmp_path, setting, message):
    with pytest.raises(ConfigurationError, match=message):
        read_config(paired, [setting])


def test_dev_images_come_from_all_datasets(scenes, recipe, tmp_path):
    other = write_scenes(tmp_path / "other", train=8, dev=12, seed=9)
    text = recipe.read_text(encoding="utf-8")
    more = f'[[data]]\ndataset = "{other / "captions.csv"}"\nfeatures = "{other / "features"}"\n'
    recipe.write_text(text.replace("[vocabulary]", more + "[vocabulary]"), encoding="utf-8")
    _, dev, _ = read_examples(read_config(recipe).data)
    some = dev.some_images(9)
    kept = np.unique(some.image_of)
    assert len(kept) == 9 and (kept < 24).sum() == 6 and (kept >= 24).sum() == 3
    assert dev.some_images(1000).captions == dev.captions
