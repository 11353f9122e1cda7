import pytest
import torch
from pydantic import ValidationError

from smlstm.errors import InputError
from smlstm.model import MNLM, MNLMConfig
from smlstm.text import Vocabulary
from smlstm.training.transfer import start_from_model
from tests.model import literal
from tests.model.conftest import SENTENCES, random_features


def mnlm(vocabulary, **changes) -> MNLM:
    torch.manual_seed(3)
    sizes = dict(region_width=6, context_width=7, embedding_width=5, sentence_width=9)
    return MNLM(MNLMConfig(**{**sizes, **changes}), vocabulary).double().eval()


def test_scores_are_those_of_the_equation(vocabulary):
    model, features = mnlm(vocabulary), random_features()
    scores = model.score(model.encode_images(features), model.encode_sentences(SENTENCES))
    weights = literal.weights_of(model)
    for i in range(4):
        for k, sentence in enumerate(SENTENCES):
            expected = literal.mnlm(model.config, weights, features.context[i].numpy(), vocabulary.encode(sentence).ids)
            assert scores[i, k].item() == pytest.approx(expected, abs=1e-12)


def test_no_attention_no_maps(vocabulary):
    model = mnlm(vocabulary)
    images, sentences = model.encode_images(random_features()), model.encode_sentences(SENTENCES)
    with pytest.raises(InputError, match="mnlm matcher has no attention"):
        model.attend(images, sentences, torch.tensor([[0, 0]]))


def test_smlstm_starts_from_a_trained_mnlm(make, vocabulary):
    baseline, model = mnlm(vocabulary), make()
    assert start_from_model(model, baseline) == ["word vectors", "sentence context"]
    tokens = model.tokens(SENTENCES)
    ours = model.sentence_context(model.embedding(tokens), tokens)
    theirs = baseline.sentence_context(baseline.embedding(tokens), tokens)
    torch.testing.assert_close(ours, theirs)


def test_shared_projections(make, vocabulary):
    """`ctx` of the joint space's width compares exactly the vectors whose cosine is MNLM's score."""
    baseline = mnlm(vocabulary)
    model = make(variant="ctx", similarity_width=9)
    assert start_from_model(model, baseline) == [
        "word vectors",
        "sentence context",
        "image projection",
        "sentence projection",
    ]
    images, sentences = model.encode_images(random_features()), model.encode_sentences(SENTENCES)
    cosine = torch.nn.functional.cosine_similarity(images.candidates, sentences.candidates.squeeze(1)[None], dim=-1)
    expected = baseline.score(baseline.encode_images(random_features()), baseline.encode_sentences(SENTENCES))
    torch.testing.assert_close(cosine, expected)


def test_regions_of_the_contexts_width_share_its_projection(make, vocabulary):
    baseline = mnlm(vocabulary, region_width=7)
    model = make(region_width=7, similarity_width=9)
    assert "image projection" in start_from_model(model, baseline)
    torch.testing.assert_close(model.comparison.image.weight, baseline.image.weight)


def test_words_that_read_like_mnlm_start_from_its_lstm(make, vocabulary):
    """With room for it, what is compared at the last word is n itself."""
    baseline = mnlm(vocabulary, region_width=7)
    model = make(region_width=7, similarity_width=9, word_width=18)
    assert "words' forward LSTM" in start_from_model(model, baseline)
    tokens = model.tokens(SENTENCES)
    said = model.encode_sentences(tokens).candidates[torch.arange(len(SENTENCES)), tokens.lengths - 1]  # N, S
    torch.testing.assert_close(said, baseline.sentence_context(baseline.embedding(tokens), tokens))


def test_with_a_global_score_the_start_ranks_like_mnlm(make, vocabulary):
    """What the steps say is small at first: scores are MNLM's to within it."""
    baseline = mnlm(vocabulary, region_width=7)
    model = make(region_width=7, global_score=True)
    assert "global score" in start_from_model(model, baseline)
    images = random_features(width=7)
    with torch.no_grad():
        model.aggregation.output.weight.zero_()
        ours = model.score(model.encode_images(images), model.encode_sentences(SENTENCES))
        theirs = baseline.score(baseline.encode_images(images), baseline.encode_sentences(SENTENCES))
    torch.testing.assert_close(ours - model.aggregation.output.bias, theirs)


def test_word_vectors_are_matched_by_word(make):
    baseline = mnlm(Vocabulary(("beach", "dog", "zebra")))
    model = make()
    before = model.embedding.weight.detach().clone()
    start_from_model(model, baseline)
    row = model.vocabulary.row
    torch.testing.assert_close(model.embedding.weight[row("dog")], baseline.embedding.weight[3])
    torch.testing.assert_close(model.embedding.weight[row("beach")], baseline.embedding.weight[2])
    torch.testing.assert_close(model.embedding.weight[row("men")], before[row("men")])
    assert (model.embedding.weight[0] == 0).all()


def test_plain_words_start_with_the_projection_of_their_mean(make, vocabulary):
    """With flat maps, what is compared is then exactly what MNLM compares."""
    baseline = mnlm(vocabulary, region_width=7, sentence_pooling="mean")
    model = make(region_width=7, words="vectors", word_width=5, similarity_width=9, sentence_pooling="mean")
    taken = start_from_model(model, baseline)
    assert taken == ["word vectors", "sentence context", "image projection", "sentence projection"]
    tokens = model.tokens(SENTENCES)
    words = model.encode_sentences(tokens).candidates  # N, J, S
    mean = torch.stack([row[:length].mean(0) for row, length in zip(words, tokens.lengths, strict=True)])
    torch.testing.assert_close(mean, baseline.sentence_context(baseline.embedding(tokens), tokens))


def test_words_that_are_vectors_have_their_width(make):
    with pytest.raises(ValidationError, match="words are vectors of 5"):
        make(words="vectors", word_width=8)
