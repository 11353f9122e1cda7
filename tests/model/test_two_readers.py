"""`context_words = "learned"`: a language model reads the words, learned vectors make the sentence's context."""

from dataclasses import replace

import pytest
import torch
from pydantic import ValidationError

from smlstm.model.mnlm import initialise_from_mnlm
from smlstm.text.language_model import WIDTH
from smlstm.training.start import start_from_model
from tests.model.conftest import SENTENCES, random_features
from tests.model.test_mnlm import mnlm

BOTH = dict(
    region_width=7,
    language_model="minilm",
    context_words="learned",
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
    assert torch.equal(first.whole, other_vectors.whole)
    assert torch.equal(first.reference, other_vectors.reference)
    assert not torch.allclose(first.candidates, other_vectors.candidates)
    tokens = tokens_of(model)
    other_words = model.encode_sentences(replace(tokens, ids=tokens.ids.flip(0)))
    assert torch.equal(first.candidates, other_words.candidates)
    assert not torch.allclose(first.whole, other_words.whole)


def test_without_a_language_model_there_is_one_reader(make):
    with pytest.raises(ValidationError, match="context_words is `learned`"):
        make(context_words="learned")


def test_each_reader_starts_from_the_mnlm_that_reads_alike(make, vocabulary):
    learned = mnlm(vocabulary, region_width=7, sentence_pooling="max")
    reads = mnlm(vocabulary, region_width=7, sentence_pooling="mean", language_model="minilm")
    model = make(**BOTH)
    assert initialise_from_mnlm(model, reads) == ["language model", "image projection", "sentence projection"]
    assert initialise_from_mnlm(model, learned) == ["word vectors", "sentence context", "global score"]
    images = model.encode_images(random_features(width=7))
    tokens = tokens_of(model)
    sentences = model.encode_sentences(tokens)
    expected = learned.score(learned.encode_images(random_features(width=7)), learned.encode_sentences(SENTENCES))
    torch.testing.assert_close(images.whole @ sentences.whole.T, expected)
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
