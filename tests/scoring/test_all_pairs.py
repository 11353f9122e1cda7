import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from smlstm.errors import ConfigurationError, InputError
from smlstm.matching.batch import ImageFeatures
from smlstm.model import SMLSTM, Ensemble
from smlstm.scoring import Stored, Stream, score_all, score_pairs
from smlstm.scoring.job import Engine
from smlstm.scoring.precision import native_bfloat16
from smlstm.scoring.sentences import SentenceGroups, batch_bytes
from smlstm.text.language_model import WIDTH
from tests.scoring import made

counts, sizes = st.integers(1, 9), st.integers(1, 12)
memories = st.sampled_from([0, 3000, 1 << 30])


@settings(max_examples=100)
@given(kind=st.sampled_from(made.KINDS), images=counts, sentences=counts, tile=st.tuples(sizes, sizes), memory=memories)
def test_any_tile_gives_the_scores_of_the_plain_forward_pass(kind, images, sentences, tile, memory):
    matcher, features, texts = made.matcher(kind), made.features(images), made.sentences(sentences)
    scores = score_all(matcher, features, texts, tile=tile, memory=memory, precision="float32")
    assert scores.dtype == np.float32
    np.testing.assert_allclose(scores, made.plain(matcher, features, texts), atol=1e-5, rtol=1e-5)


@settings(max_examples=40)
@given(
    kind=st.sampled_from(made.KINDS), pairs=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 6))), memory=memories
)
def test_chosen_pairs_are_those_of_the_matrix(kind, pairs, memory):
    matcher, features, texts = made.matcher(kind), made.features(5), made.sentences(7)
    scores = score_pairs(matcher, features, texts, pairs, tile=(2, 3), memory=memory)
    whole = made.plain(matcher, features, texts)
    np.testing.assert_allclose(scores, [whole[pair] for pair in pairs], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("modulation", ["joint", "gated"])
def test_extreme_attention_is_exact(modulation, monkeypatch):
    """Beyond what exponentials can hold, and for one image only, so that tiles of both kinds meet."""
    matcher = made.smlstm(f"full-{modulation}-product")
    with torch.no_grad():
        matcher.image_attention.candidate.weight.mul_(60)
        matcher.image_attention.hidden.weight.mul_(200)
        matcher.sentence_attention.hidden.weight.mul_(100)
    features, texts = made.features(6), made.sentences(5)
    features.regions[1:] *= 0.01
    for scaled in (True, False):
        if not scaled:
            monkeypatch.setattr("smlstm.model.smlstm.scaled", lambda values: values)
        for tile in ((1, 5), (6, 5)):
            np.testing.assert_allclose(
                score_all(matcher, features, texts, tile=tile), made.plain(matcher, features, texts), atol=1e-4
            )


def test_every_way_to_give_images_and_sentences():
    matcher, features, texts = made.matcher("full-joint-product"), made.features(7), made.sentences(5)
    features = ImageFeatures(features.regions.half().float(), features.context.half().float())
    expected = made.plain(matcher, features, texts)
    store = made.MadeStore(features)
    with torch.no_grad():
        encoded, said = matcher.encode_images(features), matcher.encode_sentences(texts)
    parts = [features.select(slice(0, 3)), features.select(slice(3, 7))]
    for images in (features, encoded, parts, store, Stored(store), Stream(7, iter(parts)), tuple(parts)):
        np.testing.assert_allclose(score_all(matcher, images, texts, tile=(2, 2)), expected, atol=1e-5)
    np.testing.assert_allclose(score_all(matcher, encoded, said, tile=(2, 2)), expected, atol=1e-5)
    np.testing.assert_allclose(score_all(matcher, Stored(store, [4, 0]), said), expected[[4, 0]], atol=1e-5)
    for way in (features, store, parts):
        np.testing.assert_allclose(
            score_pairs(matcher, way, texts, [(6, 1), (0, 4)]), [expected[6, 1], expected[0, 4]], atol=1e-5
        )


def test_out_is_filled():
    matcher, features, texts = made.matcher("mnlm"), made.features(3), made.sentences(4)
    out = np.zeros((3, 4), np.float32)
    assert score_all(matcher, features, texts, out=out) is out
    np.testing.assert_allclose(out, made.plain(matcher, features, texts), atol=1e-6)
    with pytest.raises(InputError, match=r"float32 of shape \(3, 4\), not float64"):
        score_all(matcher, features, texts, out=np.zeros((3, 4)))


@pytest.mark.parametrize("kind", ["full-joint-additive", "full-gated-product", "scan", "ensemble"])
@pytest.mark.parametrize(("images", "sentences"), [(0, 3), (1, 1), (3, 0), (0, 0)])
def test_few_or_none(kind, images, sentences, tmp_path):
    features, texts = made.features(images), made.sentences(sentences)
    for out in (None, tmp_path / "scores.npy"):
        scores = score_all(made.matcher(kind), features, texts, out=out)
        assert scores.shape == (images, sentences)


def test_refusals_say_what_to_do():
    matcher, features = made.matcher("full-gated-product"), made.features(40)
    with pytest.raises(InputError, match="sentence 2 has no words"):
        score_all(matcher, features, ["a dog runs", "dog", "..."])
    with pytest.raises(InputError, match="list of strings, not the string"):
        score_all(matcher, features, "a dog")
    features.context[33, 2] = torch.nan
    with pytest.raises(InputError, match=r"image 25 are not finite.*counted from row 8"):
        score_all(matcher, features, ["dog"], tile=(8, 8))
    with pytest.raises(ConfigurationError, match="precision 'half' is unknown"):
        score_all(matcher, features, ["dog"], precision="half")
    with pytest.raises(ConfigurationError, match=r"tile is \(0, 3\)"):
        score_all(matcher, features, ["dog"], tile=(0, 3))
    with pytest.raises(InputError, match="the stream ended after 4 images; 5 were announced"):
        score_all(matcher, Stream(5, [made.features(4)]), ["dog"])
    with pytest.raises(InputError, match="not list"):
        score_all(matcher, ["one.jpg"], ["dog"])
    with pytest.raises(InputError, match="outside the 4 and 1"):
        score_pairs(matcher, made.features(4), ["dog"], [(4, 0)])


def test_a_matcher_in_training_is_scored_without_dropout_and_left_in_training():
    matcher = made.smlstm(dropout=0.5).train()
    features, texts = made.features(3), made.sentences(4)
    scores = score_all(matcher, features, texts)
    assert matcher.training
    np.testing.assert_allclose(scores, made.plain(matcher.eval(), features, texts), atol=1e-5)


def test_progress_counts_every_pair():
    seen = []
    score_all(
        made.matcher("full-gated-product"), made.features(7), made.sentences(5), tile=(2, 2), progress=seen.append
    )
    assert [step.done for step in seen] == sorted({step.done for step in seen})
    assert seen[-1].done == seen[-1].total == 35
    assert seen[-1].left == 0


def test_two_readers_are_scored_as_by_the_plain_forward_pass():
    settings = dict(language_model="minilm", words="vectors", word_width=WIDTH, context_words="both")
    matcher, features, texts = (
        made.smlstm("full-gated-product-whole-max", **settings),
        made.features(6),
        made.sentences(5),
    )
    exact = made.plain(matcher, features, texts)
    np.testing.assert_allclose(score_all(matcher, features, texts, tile=(4, 3)), exact, atol=1e-4)
    pairs = [(0, 1), (2, 2), (5, 4)]
    found = score_pairs(matcher, features, texts, pairs)
    np.testing.assert_allclose(found, [exact[pair] for pair in pairs], atol=1e-4)


def test_both_sides_are_encoded_in_the_precision_of_the_pairs():
    """Sentences only where the processor has it: others cannot run an LSTM in it."""
    matcher, features, texts = made.matcher("full-gated-product-whole"), made.features(4), made.sentences(4)
    native = native_bfloat16(torch.device("cpu"))
    for precision, rounded in (("bfloat16", True), ("float32", False)):
        engine = Engine(matcher, precision, None)
        images, sentences = engine.prepare_images(features, 0).reference, engine.prepare_sentences(texts).reference
        assert images.dtype == sentences.dtype == torch.float32
        assert bool((images == images.bfloat16()).all()) == rounded
        assert bool((sentences == (sentences / 2).bfloat16() * 2).all()) == (rounded and native)


def test_a_processor_without_bfloat16_does_not_run_an_lstm_in_it(monkeypatch):
    monkeypatch.setattr("smlstm.scoring.job.native_bfloat16", lambda device: False)
    engine = Engine(made.matcher("full-gated-product-whole"), "bfloat16", None)
    whole = engine.prepare_sentences(made.sentences(4)).whole
    expected = Engine(made.matcher("full-gated-product-whole"), "float32", None).prepare_sentences(made.sentences(4))
    assert torch.equal(whole, expected.whole)


@pytest.mark.parametrize("kind", made.KINDS)
def test_texts_that_are_encoded_in_parts_are_put_together(kind, monkeypatch):
    monkeypatch.setattr("smlstm.scoring.job.TOGETHER", 3)
    matcher, features, texts = made.matcher(kind), made.features(3), made.sentences(11)
    np.testing.assert_allclose(score_all(matcher, features, texts), made.plain(matcher, features, texts), atol=1e-4)


def test_groups_of_chosen_sentences_are_as_large_as_memory_allows():
    engine, texts = Engine(made.matcher("full-gated-product"), "float32", None), made.sentences(1000)
    few, many = (SentenceGroups.for_chosen(engine, texts, memory) for memory in (500_000, 1 << 30))
    assert [len(part) for part in many.columns] == [500, 500]
    assert 128 <= len(few.columns[0]) < 500
    for groups in (few, many):
        assert sorted(torch.cat(groups.columns).tolist()) == list(range(1000))
    largest = max(batch_bytes(prepared) for _, prepared in few)
    assert 4 * largest <= 500_000


@pytest.mark.parametrize("kind", made.KINDS)
def test_bfloat16_ranks_alike(kind):
    """Rounding moves scores by much less than pairs differ; and no more pairs tie than before."""
    matcher, features, texts = made.matcher(kind), made.features(20), made.sentences(20)
    exact = made.plain(matcher, features, texts)
    rough = score_all(matcher, features, texts, precision="bfloat16")
    assert np.abs(rough - exact).mean() < 0.1 * exact.std()
    assert len(np.unique(rough)) > 0.9 * len(np.unique(exact.astype(np.float32)))
    if not isinstance(matcher, SMLSTM | Ensemble):
        np.testing.assert_allclose(rough, exact, atol=1e-5)  # their own way, in their own precision
