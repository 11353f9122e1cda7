"""Unusual input, the same for every kind of matcher."""

import pytest
import torch

from smlstm.baselines import DVSA, OEM, SCAN, VSEPP
from smlstm.errors import InputError
from smlstm.matching.batch import ImageFeatures, Tokens
from smlstm.model import MNLM, SMLSTM
from smlstm.saving import KINDS
from smlstm.text import UNKNOWN, Vocabulary

WIDTHS = dict(region_width=6, context_width=6, max_words=5, embedding_width=5, sentence_width=8)
SIZES = dict(word_width=8, attention_width=4, similarity_width=6, hidden_width=5)


ALL_TERMS = "sm-lstm of three terms"


@pytest.fixture(params=[ALL_TERMS, *(kind.kind for kind in (SMLSTM, MNLM, OEM, VSEPP, DVSA, SCAN))])
def matcher(request):
    torch.manual_seed(0)
    vocabulary = Vocabulary.build(["a red dog runs on the beach"])
    kind = SMLSTM.kind if request.param == ALL_TERMS else request.param
    widths = {**WIDTHS, **SIZES} if kind == SMLSTM.kind else WIDTHS
    added = {"global_score": True, "instance_score": True} if request.param == ALL_TERMS else {}
    return KINDS[kind](KINDS[kind].config_type(**widths, **added), vocabulary).eval()


def features(images=2, regions=4, width=6, context=6) -> ImageFeatures:
    return ImageFeatures(torch.rand(images, regions, width), torch.rand(images, context))


def score(matcher, sentences, images=None):
    with torch.no_grad():
        images = features() if images is None else images
        return matcher.score(matcher.encode_images(images), matcher.encode_sentences(sentences))


@pytest.mark.parametrize("empty", ["", "   ", "?!...", "\n"])
def test_a_sentence_without_words_is_an_error_that_names_it(matcher, empty):
    with pytest.raises(InputError, match="sentence 1 has no words"):
        matcher.encode_sentences(["a dog", empty])


def test_only_unknown_words_are_scored_as_the_unknown_word(matcher):
    assert matcher.vocabulary.unknown_words(["zebra crossing", "a zebra"]) == ["zebra", "crossing"]
    assert matcher.tokens(["zebra crossing"]).ids.tolist() == [[UNKNOWN, UNKNOWN]]
    images = features()
    unknown = score(matcher, ["zebra crossing"], images)
    assert torch.isfinite(unknown).all()
    torch.testing.assert_close(unknown, score(matcher, ["lorem ipsum"], images))


def test_words_beyond_the_limit_do_not_count(matcher):
    images = features()
    long = "a red dog runs on the beach the beach"
    torch.testing.assert_close(score(matcher, [long], images), score(matcher, ["a red dog runs on"], images))
    assert matcher.vocabulary.encode(long, matcher.config.max_words).dropped == 4


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("where", ["regions", "context"])
def test_features_that_are_not_numbers_are_named(matcher, bad, where):
    broken = features(images=3)
    getattr(broken, where)[2].view(-1)[3] = bad
    with pytest.raises(InputError, match="image 2 are not finite"):
        matcher.encode_images(broken)


def test_features_of_another_width_are_refused_by_name(matcher):
    with pytest.raises(InputError, match=r"region_width \(F\) 7, this model was made for 6"):
        matcher.encode_images(features(width=7))
    with pytest.raises(InputError, match=r"context_width \(D\) 9, this model was made for 6"):
        matcher.encode_images(features(context=9))


def test_a_grid_of_another_size_is_read(matcher):
    assert torch.isfinite(score(matcher, ["a dog"], features(regions=9))).all()


def test_half_precision_features_are_read(matcher):
    whole = features()
    half = ImageFeatures(whole.regions.half(), whole.context.half())
    torch.testing.assert_close(score(matcher, ["a dog"], half), score(matcher, ["a dog"], whole), atol=1e-2, rtol=1e-2)


def test_large_half_precision_features_do_not_overflow_the_check(matcher):
    matcher.encode_images(ImageFeatures(torch.full((1, 4, 6), 60000.0).half(), torch.full((1, 6), 60000.0).half()))


def test_one_string_is_not_a_list_of_letters(matcher):
    with pytest.raises(InputError, match="give a list of sentences"):
        matcher.encode_sentences("dog")


@pytest.mark.parametrize("lengths", [[0, 2], [2, 4]])
def test_tokens_of_impossible_length_are_refused(matcher, lengths):
    with pytest.raises(InputError, match="allow 1 to 3"):
        matcher.encode_sentences(Tokens(torch.full((2, 3), 2), torch.tensor(lengths)))


def test_tokens_beyond_the_limit_are_refused(matcher):
    with pytest.raises(InputError, match="allow 1 to 5"):
        matcher.encode_sentences(Tokens(torch.full((1, 6), 2), torch.tensor([6])))


def test_an_empty_grid_is_refused(matcher):
    with pytest.raises(InputError, match="no regions"):
        features(regions=0)


def test_no_images_give_an_empty_matrix(matcher):
    assert score(matcher, ["a dog"], features(images=0)).shape == (0, 1)
