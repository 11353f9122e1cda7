import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from smlstm.matching.batch import Tokens
from smlstm.model.readers import PlainWords, ReadWords
from smlstm.model.sentence import SentenceContext, SentenceWords, WordEmbedding, reverse_words
from tests.model import literal

ids = st.lists(st.lists(st.integers(1, 19), min_size=1, max_size=8), min_size=1, max_size=5)


def tokens_of(rows: list[list[int]], padding: int) -> Tokens:
    longest = max(map(len, rows)) + padding
    return Tokens(
        torch.tensor([row + [0] * (longest - len(row)) for row in rows]), torch.tensor([len(row) for row in rows])
    )


@pytest.fixture(scope="module")
def parts():
    torch.manual_seed(0)
    return WordEmbedding(20, 5).double(), SentenceWords(5, 8).double(), SentenceContext(5, 6).double()


@settings(max_examples=40)
@given(ids, st.integers(1, 30))
def test_more_padding_changes_nothing(parts, rows, padding):
    embedding, words, context = parts
    tight, loose = tokens_of(rows, 0), tokens_of(rows, padding)
    width = tight.ids.shape[1]
    w = words(embedding(loose), loose)
    torch.testing.assert_close(w[:, :width], words(embedding(tight), tight))
    assert (w[~loose.mask] == 0).all()
    torch.testing.assert_close(context(embedding(loose), loose), context(embedding(tight), tight))


def test_words_and_context_are_those_of_the_equations(parts):
    embedding, words, context = parts
    rows = [[3, 4, 5], [7], [2, 2, 9, 11, 1]]
    tokens = tokens_of(rows, 2)
    w, n = words(embedding(tokens), tokens), context(embedding(tokens), tokens)
    weights = {
        **{f"words.{k}": v for k, v in literal.weights_of(words).items()},
        **{f"sentence_context.{k}": v for k, v in literal.weights_of(context).items()},
    }
    for k, row in enumerate(rows):
        vectors = embedding.weight.detach().numpy()[row]
        np.testing.assert_allclose(w[k, : len(row)].detach(), literal.words(weights, vectors), atol=1e-12)
        np.testing.assert_allclose(n[k].detach(), literal.sentence_context(weights, vectors), atol=1e-12)


def test_reversing_keeps_padding_behind():
    tokens = tokens_of([[1, 2, 3], [4]], 1)
    reversed_ids = reverse_words(tokens.ids[:, :, None].double(), tokens)[:, :, 0]
    assert reversed_ids.tolist() == [[3, 2, 1, 0], [4, 0, 0, 0]]


def test_padding_vector_is_zero_and_gets_no_gradient():
    embedding = WordEmbedding(6, 3)
    embedding(Tokens(torch.tensor([[0, 2]]), torch.tensor([2]))).sum().backward()
    assert (embedding.weight[0] == 0).all()
    assert (embedding.weight.grad[0] == 0).all()
    assert (embedding.weight.grad[2] == 1).all()


def test_mean_is_a_linear_map_of_the_real_words(parts):
    embedding, _, _ = parts
    tokens = tokens_of([[3, 4, 5], [7]], 2)
    context = SentenceContext(5, 6, "mean").double()
    n = context(embedding(tokens), tokens)
    for k, row in enumerate([[3, 4, 5], [7]]):
        expected = context.linear(embedding.weight[row].mean(0))
        torch.testing.assert_close(n[k], expected)


def test_words_may_be_the_vectors_themselves(parts):
    embedding, _, _ = parts
    tokens = tokens_of([[3, 4, 5], [7]], 2)
    w = PlainWords()(embedding(tokens), tokens)
    torch.testing.assert_close(w[0, :3], embedding.weight[[3, 4, 5]])
    assert (w[~tokens.mask] == 0).all()


def test_read_words_have_one_size_and_dropped_ones_none():
    vectors = torch.randn(1, 3, 4, dtype=torch.double) * 7
    vectors[0, 1] = 0
    words = ReadWords()(Tokens(torch.ones(1, 3, dtype=torch.long), torch.tensor([3]), vectors))
    torch.testing.assert_close(words[0, [0, 2]].square().mean(1), torch.ones(2, dtype=torch.double), rtol=1e-4, atol=0)
    assert not words[0, 1].any()
