import json
import shutil
from dataclasses import replace

import pytest
import torch

from smlstm import Matcher
from smlstm.errors import ConfigurationError, InputError
from smlstm.evaluation.models import load_candidates
from smlstm.model import SMLSTM
from smlstm.pair import Calibration, load_model, load_pair
from smlstm.pair.pair import Pair, save_pair
from tests.search.made import make_pair


@pytest.fixture(scope="module")
def pair(tmp_path_factory) -> Pair:
    return load_pair(make_pair(tmp_path_factory.mktemp("model")))


def test_the_digest_follows_the_weights_and_not_the_calibration(tmp_path):
    first = load_pair(make_pair(tmp_path / "a"))
    assert load_pair(make_pair(tmp_path / "b", calibration=Calibration(scale=9))).digest == first.digest
    assert load_pair(make_pair(tmp_path / "c", seed=1)).digest != first.digest
    unsaved = Pair(first.shortlist, first.reranker)
    assert unsaved.digest == Pair(first.shortlist, first.reranker).digest != ""


def test_probability_is_the_sigmoid_of_the_scaled_score():
    calibration = Calibration(scale=2.0, offset=-1.0)
    assert calibration.probability(0.5, "a dog") == 0.5 and calibration.probability(-1e9, "a dog") == 0.0
    assert calibration.probability(1.0, "a dog") == pytest.approx(float(torch.sigmoid(torch.tensor(1.0))))


def test_the_shortlist_has_its_weight_in_the_score(pair):
    generator = torch.Generator().manual_seed(0)
    vectors = torch.nn.functional.normalize(torch.randn(3, 24, generator=generator), dim=1)
    features = torch.randn(3, 4, 1280, generator=generator)
    with torch.inference_mode():
        images = pair.reranker._encode_images(type_of_features(features))
        plain = pair.score(vectors, images, ["a red circle"])
        weighted = replace(pair, calibration=Calibration(shortlist_weight=0.5)).score(vectors, images, ["a red circle"])
        cosines = vectors @ pair.embed_sentences(["a red circle"]).T
    assert torch.allclose(weighted - plain, 0.5 * cosines, atol=1e-5)


def test_a_reranker_can_find_its_candidates_by_its_own_global_score(pair, tmp_path):
    config = pair.reranker.config.model_copy(update={"global_score": True})
    torch.manual_seed(0)
    reranker = SMLSTM(config, pair.reranker.vocabulary).eval()
    save_pair(tmp_path / "alone", None, reranker, Calibration(scale=2.0))
    assert not (tmp_path / "alone" / "shortlist").exists()
    alone = load_pair(tmp_path / "alone")
    assert alone.shortlist is None and alone.calibration.scale == 2.0
    assert Matcher.from_pretrained(tmp_path / "alone").kind == "sm-lstm"
    features = type_of_features(torch.randn(3, 4, 1280, generator=torch.Generator().manual_seed(0)))
    vectors, images = alone.encode_images(features)
    assert vectors.shape == (3, alone.vector_width) and alone.vector_width == config.sentence_width
    torch.testing.assert_close(vectors, alone.embed_images(features))
    torch.testing.assert_close(vectors.norm(dim=1), torch.ones(3))
    sentences = ["a red circle", "a blue square"]
    with torch.inference_mode():
        encoded = alone.reranker.encode_sentences(sentences)
        torch.testing.assert_close(vectors @ alone.embed_sentences(sentences).T, images.whole @ encoded.whole.T)
    assert alone.digest == load_pair(tmp_path / "alone").digest != pair.digest
    with pytest.raises(ConfigurationError, match="cannot add its score"):
        Pair(None, reranker, Calibration(shortlist_weight=0.5))
    with pytest.raises(ConfigurationError, match="no global score to find candidates by"):
        Pair(None, pair.reranker)


def type_of_features(regions: torch.Tensor):
    from smlstm.matching.batch import ImageFeatures  # noqa: PLC0415

    return ImageFeatures(regions, regions.mean(1))


def test_without_calibration_it_is_said(tmp_path):
    folder = make_pair(tmp_path / "model")
    assert load_pair(folder).calibrated
    (folder / "calibration.json").unlink()
    assert not load_pair(folder).calibrated


@pytest.mark.parametrize(
    "content", ["{", "[]", '{"scale": -1}', '{"scale": "much"}', '{"offset": NaN}', '{"scale": 1, "short_scale": -3}']
)
def test_a_calibration_that_does_not_fit_is_refused(tmp_path, content):
    folder = make_pair(tmp_path / "model")
    (folder / "calibration.json").write_text(content)
    with pytest.raises(ConfigurationError, match=r"calibration\.json"):
        load_pair(folder)


def test_a_pair_must_read_the_same_features_and_have_vectors_first(tmp_path, pair):
    folder = make_pair(tmp_path / "model")
    path = folder / "reranker" / "config.json"
    config = json.loads(path.read_text())
    config["model"]["regions"] = 49
    path.write_text(json.dumps(config))
    with pytest.raises(ConfigurationError, match="regions 4, the reranker with 49"):
        load_pair(folder)
    with pytest.raises(ConfigurationError, match="must be a matcher of unit vectors"):
        save_pair(tmp_path / "wrong", pair.reranker, pair.reranker, None)
    assert not (tmp_path / "wrong").exists()
    shutil.copytree(folder / "reranker", folder / "shortlist", dirs_exist_ok=True)
    with pytest.raises(ConfigurationError, match="must be a matcher of unit vectors"):
        load_pair(folder)


def test_a_folder_that_is_no_pair_is_refused(tmp_path):
    with pytest.raises(InputError, match="is not a pair of models"):
        load_model(tmp_path)


def test_the_environment_names_a_model(tmp_path, monkeypatch, pair):
    monkeypatch.setenv("SMLSTM_MODEL", str(make_pair(tmp_path / "model")))
    assert load_model().digest == pair.digest


@pytest.mark.parametrize("weight", [0.0, 0.7])
def test_a_pair_as_one_matcher_has_its_scores(tmp_path, weight):
    folder = make_pair(tmp_path / "model", calibration=Calibration(shortlist_weight=weight))
    pair, matcher = load_pair(folder), Matcher.from_pretrained(folder)
    features = type_of_features(torch.randn(3, 4, 1280, generator=torch.Generator().manual_seed(0)))
    sentences = ["a red circle", "a blue square"]
    with torch.inference_mode():
        whole = matcher.score(matcher.encode_images(features), matcher.encode_sentences(sentences))
        images = pair.reranker.encode_images(features)
        torch.testing.assert_close(whole, pair.score(pair.embed_images(features), images, sentences))
    (candidate,) = load_candidates([folder])
    assert candidate.matcher.kind == ("ensemble" if weight else "sm-lstm")
