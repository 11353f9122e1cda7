"""`context_words = "both"`: a language model reads the words, learned vectors make the sentence's context."""

from dataclasses import replace

import pytest
import torch
from pydantic import ValidationError

from smlstm.text.language_model import WIDTH
from smlstm.training.transfer import start_from_model
from tests.model.conftest import SENTENCES, random_features
from tests.model.test_mnlm import mnlm

BOTH = dict(
    region_width=7,
    language_model="minilm",
    context_words="both",
    words="vectors",
    word_width=WIDTH,
    similarity_width=9,
    sentence_pooling="max",
    global_score=True,
)


def tokens_of(model, seed=0):
    tokens = model.tokens(SENTENCES)
    vectors = torch.randn(*tokens.ids.shape, WIDTH, dtype=torch.double, generator=torch.Generator().manual_seed(seed))
    return replace(tokens, vectors=vectors)


def test_each_reader_sees_its_own_vectors(make):
    model = make(**BOTH)
    first = model.encode_sentences(tokens_of(model))
    other_vectors = model.encode_sentences(tokens_of(model, seed=1))
    width = model.config.sentence_width
    assert torch.equal(first.whole[:, :width], other_vectors.whole[:, :width])
    assert torch.equal(first.reference, other_vectors.reference)
    assert not torch.allclose(first.candidates, other_vectors.candidates)
    tokens = tokens_of(model)
    other_words = model.encode_sentences(replace(tokens, ids=tokens.ids.flip(0)))
    assert torch.equal(first.candidates, other_words.candidates)
    assert not torch.allclose(first.whole[:, :width], other_words.whole[:, :width])
    assert torch.equal(first.whole[:, width:], other_words.whole[:, width:])


def test_each_term_counts_by_its_weight(make):
    weights = (0.5, 0.25, 2.0, 3.0)
    plain = make(**BOTH, instance_score=True)
    model = make(**BOTH, instance_score=True, term_weights=weights)
    model.load_state_dict(plain.state_dict())
    features, tokens = random_features(width=7), tokens_of(model)
    images, sentences = model.encode_images(features), model.encode_sentences(tokens)
    terms, seen = model.score_terms(images, sentences, torch.tensor([[0, 1]]))
    alike, _ = plain.score_terms(plain.encode_images(features), plain.encode_sentences(tokens))
    torch.testing.assert_close(terms, alike)  # each is trained as it is
    expected = sum(weight * terms[:, :, place] for place, weight in enumerate(weights))
    torch.testing.assert_close(model.score(images, sentences), expected)
    torch.testing.assert_close(seen.scores[0, -1], expected[0, 1])
    told = model.attend(images, sentences, torch.tensor([[0, 1]]))
    torch.testing.assert_close(told.scores, seen.scores)
    torch.testing.assert_close(told.whole[0], 0.25 * terms[0, 1, 1] + 2.0 * terms[0, 1, 2])
    torch.testing.assert_close(images.whole @ sentences.whole.T, 0.25 * terms[:, :, 1] + 2.0 * terms[:, :, 2])
    with pytest.raises(ValidationError, match="term_weights has 3 numbers, but the score has 4 terms"):
        make(**BOTH, instance_score=True, term_weights=weights[:3])


def test_both_readers_have_their_say_in_the_global_score(make):
    model = make(**BOTH)
    features, tokens = random_features(width=7), tokens_of(model)
    images, sentences = model.encode_images(features), model.encode_sentences(tokens)
    width = model.config.sentence_width
    assert images.whole.shape[1] == sentences.whole.shape[1] == 2 * width
    mean = (model.embedding(tokens) * tokens.mask[:, :, None]).sum(1) / tokens.lengths[:, None]
    read = torch.nn.functional.normalize(mean @ model.read_context.linear.weight.T + model.read_context.linear.bias)
    torch.testing.assert_close(sentences.whole[:, width:], read)
    terms, _ = model.score_terms(images, sentences)
    assert terms.shape[2] == 3
    for place, part in enumerate((slice(width), slice(width, None)), start=1):
        torch.testing.assert_close(terms[:, :, place], images.whole[:, part] @ sentences.whole[:, part].T)
    torch.testing.assert_close(model.score(images, sentences), terms.sum(2))
    other = model.encode_sentences(tokens_of(model, seed=1))
    assert torch.equal(other.whole[:, :width], sentences.whole[:, :width])
    assert torch.equal(other.reference, sentences.reference)
    pairs = torch.tensor([[0, 1], [1, 0]])
    _, chosen = model.score_terms(images, sentences, pairs)
    torch.testing.assert_close(chosen.scores[:, -1], terms.sum(2)[pairs[:, 0], pairs[:, 1]])
    torch.testing.assert_close(model.attend(images, sentences, pairs).scores, chosen.scores)


def test_without_a_language_model_there_is_one_reader(make):
    with pytest.raises(ValidationError, match="context_words is `both`"):
        make(context_words="both")
    with pytest.raises(ValidationError, match="only global_score has use for it"):
        make(**{**BOTH, "global_score": False})


def test_each_reader_starts_from_the_mnlm_that_reads_alike(make, vocabulary):
    learned = mnlm(vocabulary, region_width=7, sentence_pooling="max")
    reads = mnlm(vocabulary, region_width=7, sentence_pooling="mean", language_model="minilm")
    model = make(**BOTH)
    assert start_from_model(model, reads) == ["language model", "image projection", "sentence projection"]
    assert start_from_model(model, learned) == ["word vectors", "sentence context", "global score"]
    images = model.encode_images(random_features(width=7))
    tokens = tokens_of(model)
    sentences = model.encode_sentences(tokens)
    expected = learned.score(learned.encode_images(random_features(width=7)), learned.encode_sentences(SENTENCES))
    width = model.config.sentence_width
    torch.testing.assert_close(images.whole[:, :width] @ sentences.whole[:, :width].T, expected)
    torch.testing.assert_close(model.comparison.image.weight, reads.image.weight)
    torch.testing.assert_close(model.comparison.sentence.weight, reads.sentence_context.linear.weight)


def test_one_that_had_one_reader_gives_all_but_its_context(make, vocabulary):
    model, trained = make(**BOTH), make(**{**BOTH, "context_words": "same"})
    with torch.no_grad():
        for parameter in trained.parameters():
            parameter.add_(1.0)
    taken = start_from_model(model, trained)
    assert not [name for name in taken if name.startswith(("sentence_context", "sentence_attention.context"))]
    torch.testing.assert_close(model.aggregation.output.weight, trained.aggregation.output.weight)
    again = make(**BOTH)
    assert "context_embedding.weight" in start_from_model(again, model)
    torch.testing.assert_close(again.context_embedding.weight, model.context_embedding.weight)
