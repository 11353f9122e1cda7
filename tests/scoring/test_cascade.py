import copy

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from smlstm.errors import ConfigurationError, InputError
from smlstm.model.smlstm import EncodedSide
from smlstm.scoring import Cascade, Stream, score_all
from tests.scoring import made

IMAGES, SENTENCES = 12, 17
IMAGE_OF = np.arange(SENTENCES) % IMAGES


@pytest.fixture(scope="module")
def world():
    features, texts = made.features(IMAGES), made.sentences(SENTENCES, seed=4)
    cheap, costly = made.mnlm(), made.smlstm()
    return features, texts, cheap, costly, made.plain(cheap, features, texts), made.plain(costly, features, texts)


def shortlisted(cheap: np.ndarray, k: int, k_images: int) -> tuple[np.ndarray, np.ndarray]:
    """By the definition: the best k of each row, the best k_images of each column."""
    by_row = cheap >= -np.sort(-cheap, axis=1)[:, [min(k, SENTENCES) - 1]]
    by_column = cheap >= -np.sort(-cheap, axis=0)[min(k_images, IMAGES) - 1]
    return by_row, by_column


@settings(max_examples=15)
@given(k=st.integers(1, 20), k_images=st.integers(1, 20), added=st.sampled_from([0.0, 0.7]))
def test_scored_pairs_come_first_and_the_rest_in_the_order_of_the_shortlist(world, k, k_images, added):
    features, texts, cheap, costly, short, exact = world
    cascade = Cascade(cheap, costly, k, k_images, weights=(1.0, added))
    scores = score_all(cascade, features, texts, tile=(3, 2))
    chosen = np.logical_or(*shortlisted(short, k, k_images))
    np.testing.assert_allclose(scores[chosen], (exact + added * short)[chosen], atol=1e-5)
    if not chosen.all():
        assert scores[~chosen].max() < scores[chosen].min()
        np.testing.assert_array_equal(np.argsort(scores[~chosen]), np.argsort(short[~chosen]))


def test_a_shortlist_of_everything_is_exhaustive(world):
    features, texts, cheap, costly, _, exact = world
    for k in (SENTENCES, 1000):
        np.testing.assert_allclose(score_all(Cascade(cheap, costly, k), features, texts), exact, atol=1e-5)


@pytest.mark.parametrize("kind", ["scan", "ensemble", "full-joint-additive", "ctx-gated-product"])
def test_any_matcher_can_score_the_shortlist_of_any_other(world, kind):
    features, texts, *_ = world
    costly = made.matcher(kind)
    scores = score_all(Cascade(made.matcher("oem"), costly, 3), features, texts)
    chosen = np.logical_or(*shortlisted(made.plain(made.matcher("oem"), features, texts), 3, 3))
    np.testing.assert_allclose(scores[chosen], made.plain(costly, features, texts)[chosen], atol=1e-4)


@given(k=st.integers(1, 20), k_images=st.integers(1, 20))
@settings(max_examples=15)
def test_recall_says_what_the_shortlist_costs(world, k, k_images):
    features, texts, cheap, costly, short, _ = world
    shortlist = Cascade(cheap, costly, k, k_images).shortlist(features, texts)
    by_row, by_column = shortlisted(short, k, k_images)
    right = IMAGE_OF, np.arange(SENTENCES)
    recall = shortlist.recall(IMAGE_OF)
    assert recall.annotation == pytest.approx(by_row[right].mean())
    assert recall.retrieval == pytest.approx(by_column[right].mean())
    assert recall.either == pytest.approx((by_row | by_column)[right].mean())
    reached = np.zeros(IMAGES, bool)
    np.logical_or.at(reached, IMAGE_OF, (by_row | by_column)[right])
    assert recall.images == pytest.approx(reached.mean())
    assert shortlist.share == pytest.approx((by_row | by_column).mean())


def test_a_shortlist_can_be_used_again_and_blocks_do_not_matter(world, monkeypatch):
    features, texts, cheap, costly, *_ = world
    cascade = Cascade(cheap, costly, 3)
    expected = score_all(cascade, features, texts)
    shortlist = cascade.shortlist(features, texts)
    np.testing.assert_allclose(cascade.score_all(features, texts, shortlist=shortlist), expected, atol=1e-6)
    monkeypatch.setattr(type(shortlist.cheap), "block", 5)
    store = made.MadeStore(features)
    np.testing.assert_allclose(score_all(cascade, store, texts, tile=(2, 2), memory=0), expected, atol=1e-2)


TWO_READERS = {
    "context_words": "both",
    "image_pooling": "max",
    "language_model": "minilm",
    "words": "vectors",
    "word_width": 384,
}


@pytest.fixture(scope="module")
def own():
    """An sm-LSTM whose own global score draws up the shortlist, and that score by its definition."""
    features, texts = made.features(IMAGES), made.sentences(SENTENCES, seed=4)
    costly = made.smlstm("full-gated-product-whole", **TWO_READERS)
    with torch.no_grad():
        x, v = costly.encode_images(features), costly.encode_sentences(texts)
    assert isinstance(x, EncodedSide) and isinstance(v, EncodedSide)
    return features, texts, costly, (x.whole @ v.whole.T).numpy(), made.plain(costly, features, texts)


@settings(max_examples=15)
@given(
    k=st.integers(1, 20),
    k_images=st.integers(1, 20),
    added=st.sampled_from([0.0, 0.7]),
    memory=st.sampled_from([0, 1 << 30]),
)
def test_the_global_score_draws_up_a_shortlist_of_its_own(own, k, k_images, added, memory):
    features, texts, costly, short, exact = own
    cascade = Cascade(None, costly, k, k_images, weights=(1.0, added))
    scores = score_all(cascade, features, texts, tile=(3, 2), precision="float32", memory=memory)
    chosen = np.logical_or(*shortlisted(short, k, k_images))
    np.testing.assert_allclose(scores[chosen], (exact + added * short)[chosen], atol=1e-5)
    if not chosen.all():
        assert scores[~chosen].max() < scores[chosen].min()
        np.testing.assert_array_equal(np.argsort(scores[~chosen]), np.argsort(short[~chosen]))


def test_with_its_own_shortlist_a_model_encodes_each_side_once(own, monkeypatch):
    features, texts, costly, *_ = own
    seen = {"images": 0, "sentences": 0}
    encode_images, encode_tokens = costly._encode_images, costly._encode_tokens

    def images(batch):
        seen["images"] += len(batch)
        return encode_images(batch)

    def sentences(tokens):
        seen["sentences"] += len(tokens)
        return encode_tokens(tokens)

    monkeypatch.setattr(costly, "_encode_images", images)
    monkeypatch.setattr(costly, "_encode_tokens", sentences)
    expected = score_all(Cascade(None, costly, 3), features, texts)
    assert seen == {"images": IMAGES, "sentences": SENTENCES}
    streamed = score_all(Cascade(None, costly, 3), Stream(IMAGES, [features]), texts)
    np.testing.assert_allclose(streamed, expected, atol=1e-6)


def test_a_shortlist_that_is_given_brings_nothing_else_along(own):
    """Not what was encoded for it: in another precision, of other weights, of other images."""
    features, texts, costly, *_ = own
    cascade = Cascade(None, copy.deepcopy(costly), SENTENCES)
    shortlist = cascade.shortlist(made.features(IMAGES, seed=9), texts, precision="bfloat16")
    with torch.no_grad():
        for parameter in cascade.matcher.parameters():
            parameter.mul_(0.5)
    scores = cascade.score_all(features, texts, shortlist=shortlist)
    np.testing.assert_allclose(scores, score_all(cascade.matcher, features, texts), atol=1e-5)


def test_a_stream_that_memory_does_not_hold_is_refused_at_once(own):
    _, texts, costly, *_ = own
    many = [made.features(64, seed=seed) for seed in range(3)]
    source = Stream(192, many)
    with pytest.raises(InputError, match="give more memory, or score without a shortlist"):
        score_all(Cascade(None, costly, 3), source, texts, memory=20_000)
    assert len(source.read(64, 192)) == 128, "the rest was not read for nothing"


def test_encodings_of_another_model_are_refused(own):
    features, texts, costly, *_ = own
    without = made.smlstm("full-gated-product")
    with pytest.raises(InputError, match="encoded without a global score: give features and texts"):
        score_all(Cascade(None, costly, 3), without.encode_images(features), texts)


@pytest.mark.parametrize("kind", ["mnlm", "full"])
def test_few_or_none(world, own, kind):
    _, _, cheap, costly, *_ = world
    cascade = Cascade(cheap, costly, 5) if kind == "mnlm" else Cascade(None, own[2], 5)
    for images, sentences in ((0, 3), (1, 1), (3, 0)):
        scores = score_all(cascade, made.features(images), made.sentences(sentences))
        assert scores.shape == (images, sentences)


def test_refusals_say_what_to_do(world):
    features, texts, cheap, costly, *_ = world
    with pytest.raises(ConfigurationError, match="k must be at least 1"):
        Cascade(cheap, costly, 0)
    for without in (costly, cheap, made.matcher("ensemble")):
        with pytest.raises(ConfigurationError, match="has no global score to draw up a shortlist with: give an MNLM"):
            Cascade(None, without)
    with pytest.raises(InputError, match="can be read once"):
        score_all(Cascade(cheap, costly, 2), Stream(IMAGES, [features]), texts)
    shortlist = Cascade(cheap, costly, 2).shortlist(features, texts)
    with pytest.raises(InputError, match="not of these"):
        Cascade(cheap, costly, 2).score_all(features, texts[:3], shortlist=shortlist)
    with pytest.raises(InputError, match="below 12, of each of 17"):
        shortlist.recall(IMAGE_OF + 1)
