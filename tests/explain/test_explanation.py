from dataclasses import replace

import numpy as np
import pytest
import torch

from smlstm.baselines.scan import SCAN, SCANConfig
from smlstm.errors import InputError
from smlstm.explain import explain
from smlstm.explain.explanation import Phrase
from smlstm.explain.places import is_even, peak
from smlstm.explain.score_parts import ScoreParts
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


def reading(explanation, *saliency):
    """The same with other attention to words."""
    rows = np.array([row + [0.0] * (len(explanation.words) - len(row)) for row in saliency], np.float32)
    return replace(explanation, word_saliency=rows)


def test_a_step_is_named_by_the_phrase_that_holds_most_of_it(explanations):
    # a red dog | runs | on | the beach
    one = reading(explanations[0], [0.1, 0.3, 0.2, 0.4], [0.05, 0.05, 0, 0.5, 0, 0.2, 0.2], [0, 0, 0, 0, 0.9, 0, 0.1])
    assert one.phrase(0) == Phrase("a red dog", 0, 3, pytest.approx(0.6))
    assert one.phrase(1) == Phrase("runs", 3, 4, pytest.approx(0.5))
    assert one.phrase(2) == Phrase("the beach", 5, 7, pytest.approx(0.1))  # "on" says nothing by itself
    assert one.describe(1).startswith("Step 2: reads “runs” (50%) and looks ")


def test_of_phrases_alike_the_first_names_the_step(explanations):
    assert reading(explanations[0], *[[1 / 7] * 7] * 3).phrase(0).text == "a red dog"


def test_a_sentence_of_function_words_is_named_by_them(features):
    (found,) = explain(build(), features.select(slice(1)), ["on the"])
    assert found.phrase(0).text in ("on", "the")


def test_words_have_maps_of_their_own_where_the_model_has_them(features, searching, explanations):
    one = searching[0]
    matcher = build(modulation="paired", global_score=True, instance_score=True)
    with torch.no_grad():
        encoded = matcher.encode_images(features), matcher.encode_sentences(SENTENCES[:1])
        maps = matcher.word_maps(*encoded, torch.tensor([[0, 0]]))
    assert np.allclose(one.word_maps, maps.reshape(7, 4, 4), atol=1e-6)
    assert [one.words[word] for word, _ in one.mapped_words] == ["red", "dog", "runs", "beach"]
    assert [searching[2].words[word] for word, _ in searching[2].mapped_words] == ["dog"]  # all it knows of that one
    assert one.word_map(0) is None and np.array_equal(one.word_map(2), one.word_maps[2])
    assert explanations[0].word_maps is None and explanations[0].mapped_words == []


def test_of_a_matcher_of_a_step_a_word_the_steps_are_the_words_maps(features):
    config = SCANConfig(region_width=6, context_width=7, embedding_width=5, sentence_width=8)
    (found,) = explain(SCAN(config, Vocabulary.build(SENTENCES)).eval(), features.select(slice(1)), SENTENCES[:1])
    assert np.array_equal(found.word_maps, found.regions)
    assert [found.phrase(step).text for step in range(found.steps)] == list(found.words)
    assert found.parts.whole == 0


def test_parts_add_up_to_the_score(features, searching, explanations):
    matcher = build(modulation="paired", global_score=True, instance_score=True)
    with torch.no_grad():
        terms, _ = matcher.score_terms(matcher.encode_images(features), matcher.encode_sentences(SENTENCES))
    for k, each in enumerate(searching):
        steps, whole, instances = terms[k, k].tolist()
        assert each.parts.whole == pytest.approx(whole, abs=1e-5)
        assert each.parts.steps == pytest.approx(steps + instances, abs=1e-5)
    assert explanations[0].parts == ScoreParts(float(explanations[0].scores[-1]), 0.0)


def test_numbers_of_phrases_words_and_parts_are_told(searching):
    content = searching[0].to_dict()
    assert set(content["steps"][0]["phrase"]) == {"text", "first", "last", "share"}
    assert sum(content["parts"][name] for name in ("steps", "whole")) == pytest.approx(content["score"])
    assert [word["function_word"] for word in content["words"]] == [True, False, False, False, True, True, False]
    assert content["words"][0]["regions"] is None and np.sum(content["words"][1]["regions"]) == pytest.approx(
        1, abs=1e-4
    )
    assert content["words"][1]["place"]


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
    assert peak(found[2].regions[0]) == (5 / 6, 1 / 6)
    assert "reads “a blue” (100%) and looks most at the upper right of the photo;" in found[2].describe(0)


def test_a_matcher_that_looks_everywhere_alike_is_said_to(features):
    found = explain(build(variant="mean"), features, SENTENCES)
    assert is_even(found[0].regions[0])
    assert found[0].place(0) == "everywhere alike"
    assert np.allclose(found[0].even_shares, 1, atol=1e-5)


def test_a_step_a_word_stays_a_step_a_word_beside_longer_sentences(features):
    config = SCANConfig(region_width=6, context_width=7, embedding_width=5, sentence_width=8)
    found = explain(SCAN(config, Vocabulary.build(SENTENCES)).eval(), features, SENTENCES)
    assert [each.steps for each in found] == [7, 3, 7]
    assert [each.phrase(1).text for each in found] == ["red", "men", "unseen"]


def test_maps_are_resized_to_the_photos_own_sides(explanations):
    maps = explanations[0].maps((60, 40))
    assert maps.shape == (3, 40, 60)
    row, column = divmod(int(maps[0].argmax()), 60)
    x, y = peak(explanations[0].regions[0])
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
