import numpy as np
import pytest
import torch

from smlstm.baselines.scan import SCAN, SCANConfig
from smlstm.errors import InputError
from smlstm.explain import explain
from smlstm.matching.batch import ImageFeatures
from smlstm.text import Vocabulary
from tests.explain.conftest import SENTENCES, build
from tests.explain.made import WORDS, Known


def test_an_explanation_is_what_the_matcher_attended_to(features):
    matcher = build()
    pairs = [(2, 0), (0, 2)]
    found = explain(matcher, features, SENTENCES, pairs)
    with torch.no_grad():
        images, sentences = matcher.encode_images(features), matcher.encode_sentences(SENTENCES)
        seen, scores = matcher.attend(images, sentences, torch.tensor(pairs)), matcher.score(images, sentences)
    for k, (each, (image, sentence)) in enumerate(zip(found, pairs, strict=True)):
        assert np.allclose(each.regions.reshape(3, 16), seen.image[k], atol=1e-6)
        assert np.allclose(each.word_saliency, seen.sentence[k, :, : len(each.words)], atol=1e-6)
        assert each.scores[-1] == pytest.approx(float(scores[image, sentence]), abs=1e-5)
        assert each.steps == 3
    assert [each.name for each in found] == ["photo 3", "photo 1"]


def test_words_are_those_the_matcher_read_with_the_unknown_and_the_cut_ones_told(features):
    found = explain(build(max_words=4), features, SENTENCES)
    assert found[0].words == ("a", "red", "dog", "runs")
    assert found[0].dropped == 3
    assert found[2].unknown == ("an", "unseen", "b", "zebra")


def test_top_words_are_in_order_of_saliency_and_ties_in_order_of_the_sentence(explanations):
    one = explanations[0]
    object.__setattr__(one, "word_saliency", np.array([[0.1, 0.4, 0.1, 0.1, 0.1, 0.1, 0.1]] * 3, np.float32))
    assert one.top_words(0) == (1, 0)


def test_places_are_told_in_words():
    regions = torch.zeros(1, 9, len(WORDS))
    for place in range(9):
        regions[0, place, place] = 1
    features = ImageFeatures(regions, torch.zeros(1, len(WORDS)))
    sentences = [f"a {word}" for word in WORDS[:9]]
    found = explain(Known("right", steps=1), features, sentences, [(0, k) for k in range(9)])
    assert [each.place(0) for each in found] == [
        "upper left", "upper centre", "upper right", "middle left", "centre", "middle right",
        "lower left", "lower centre", "lower right",
    ]  # fmt: skip
    assert found[2].peak(0) == (5 / 6, 1 / 6)
    assert 'upper right of the photo, and most at the words "blue" (100%)' in found[2].describe(0)


def test_a_matcher_that_looks_everywhere_alike_is_said_to(features):
    found = explain(build(variant="mean"), features, SENTENCES)
    assert found[0].is_even(0)
    assert found[0].place(0) == "everywhere alike"
    assert np.allclose(found[0].even_shares, 1, atol=1e-5)


def test_a_step_a_word_stays_a_step_a_word_beside_longer_sentences(features):
    config = SCANConfig(region_width=6, context_width=7, embedding_width=5, sentence_width=8)
    found = explain(SCAN(config, Vocabulary.build(SENTENCES)).eval(), features, SENTENCES)
    assert [each.steps for each in found] == [7, 3, 7]
    assert [each.top_words(1)[0] for each in found] == [1, 1, 1]


def test_maps_are_resized_to_the_photos_own_sides(explanations):
    maps = explanations[0].maps((60, 40))
    assert maps.shape == (3, 40, 60)
    row, column = divmod(int(maps[0].argmax()), 60)
    x, y = explanations[0].peak(0)
    assert abs(column / 60 - x) < 0.25 and abs(row / 40 - y) < 0.25


def test_dropout_does_not_reach_an_explanation_and_the_mode_is_kept(features):
    matcher = build(dropout=0.5).train()
    one, two = (explain(matcher, features, SENTENCES) for _ in range(2))
    assert np.array_equal(one[0].scores, two[0].scores)
    assert matcher.training


def test_what_cannot_be_explained_is_refused(features):
    with pytest.raises(InputError, match="sm-lstm of the variant ctx has no attention"):
        explain(build(variant="ctx"), features, SENTENCES)
    with pytest.raises(InputError, match="3 images and 1 sentences are no pairs"):
        explain(build(), features, SENTENCES[:1])
    with pytest.raises(InputError, match="sentence 0 has no words"):
        explain(build(), features, ["...", "a", "b"])
    with pytest.raises(InputError, match="15 regions are not a square grid"):
        explain(build(), ImageFeatures(features.regions[:, :15], features.context), SENTENCES)
