import itertools

import numpy as np
import pytest
import torch

from smlstm.errors import InputError
from smlstm.model.attention import ContextModulatedAttention, saliency
from smlstm.model.joint import joint_logits
from tests.model import literal
from tests.model.conftest import SENTENCES, random_features

MODULATIONS = ["separate", "joint", "gated"]


@pytest.mark.parametrize("modulation", MODULATIONS)
@pytest.mark.parametrize("in_context", [True, False])
def test_logits_are_those_of_the_equation(modulation, in_context):
    torch.manual_seed(1)
    attention = ContextModulatedAttention(6, 7 if in_context else None, 5, 4, modulation).double()
    candidates, context, hidden = (
        torch.randn(2, 9, 6).double(),
        torch.randn(2, 7).double(),
        torch.randn(2, 3, 5).double(),
    )
    logits = attention.logits(attention.keys(candidates), attention.reference(context), hidden)
    weights = literal.weights_of(attention)
    for b in range(2):
        for n in range(3):
            for c in range(9):
                expected = literal.attention_logit(
                    weights,
                    modulation,
                    context[b].numpy() if in_context else None,
                    candidates[b, c].numpy(),
                    hidden[b, n].numpy(),
                )
                assert logits[b, n, c].item() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("modulation", MODULATIONS)
def test_no_hidden_state_is_a_hidden_state_of_zeros(modulation):
    attention = ContextModulatedAttention(6, 7, 5, 4, modulation).double()
    keys, reference = attention.keys(torch.randn(2, 9, 6).double()), attention.reference(torch.randn(2, 7).double())
    zeros = attention.logits(keys, reference, torch.zeros(2, 3, 5).double())
    torch.testing.assert_close(attention.logits(keys, reference, None).expand(2, 3, 9), zeros)


def test_the_print_collapses_whatever_the_sentence(make):
    """`separate`: p_1 = p_2 = p_3, the same map for every sentence, with or without context."""
    for variant in ("att", "full"):
        model = make(variant=variant, modulation="separate")
        pairs = torch.tensor([[0, k] for k in range(4)])
        with torch.no_grad():
            maps = model.attend(model.encode_images(random_features()), model.encode_sentences(SENTENCES[:4]), pairs)
        np.testing.assert_allclose(maps.image, maps.image[:1, :1].expand_as(maps.image), atol=1e-12)
        for words in maps.sentence:  # each sentence has its own words, but one map for all steps
            np.testing.assert_allclose(words, words[:1].expand_as(words), atol=1e-12)


def test_the_print_ignores_global_context(make):
    model = make(modulation="separate")
    features = random_features()
    other = type(features)(features.regions, features.context.flip(0) * 3)
    sentences, pairs = model.encode_sentences(SENTENCES[:1]), torch.tensor([[0, 0]])
    with torch.no_grad():
        first = model.attend(model.encode_images(features), sentences, pairs).image
        second = model.attend(model.encode_images(other), sentences, pairs).image
    np.testing.assert_allclose(first, second, atol=1e-12)


@pytest.mark.parametrize("modulation", ["joint", "gated", "paired"])
def test_the_other_modulations_do_not_collapse(make, modulation):
    model = make(modulation=modulation)
    pairs = torch.tensor([[0, 0], [0, 1]])
    with torch.no_grad():
        maps = model.attend(model.encode_images(random_features()), model.encode_sentences(SENTENCES[:2]), pairs).image
    assert (maps[0, 0] - maps[0, 1]).abs().max() > 1e-6, "the map must move from step to step"
    assert (maps[0, 1] - maps[1, 1]).abs().max() > 1e-6, "the map must depend on the sentence"
    features = random_features()
    other = type(features)(features.regions, features.context.flip(0))
    with torch.no_grad():
        moved = model.attend(model.encode_images(other), model.encode_sentences(SENTENCES[:2]), pairs).image
    assert (maps[0, 0] - moved[0, 0]).abs().max() > 1e-6, "the map must depend on the global context"


def test_saliency_is_a_softmax_over_real_candidates():
    logits = torch.randn(2, 3, 5).double()
    mask = torch.tensor([[True] * 5, [True, True, False, False, False]])
    p = saliency(logits, mask)
    np.testing.assert_allclose(p[1, 0, :2], literal.softmax(logits[1, 0, :2].numpy()))
    assert (p[1, :, 2:] == 0).all()
    torch.testing.assert_close(p.sum(-1), torch.ones(2, 3).double())


@pytest.mark.parametrize("modulation", MODULATIONS)
def test_gradients_of_attention(modulation):
    torch.manual_seed(2)
    attention = ContextModulatedAttention(3, 4, 2, 5, modulation).double()

    def maps(candidates, context, hidden):
        logits = attention.logits(attention.keys(candidates), attention.reference(context), hidden)
        return saliency(logits, None)

    inputs = [torch.randn(*shape).double().requires_grad_() for shape in ((2, 4, 3), (2, 4), (2, 3, 2))]
    assert torch.autograd.gradcheck(maps, inputs)


def test_joint_logits_in_slices(monkeypatch):
    """However small the slices and large the arguments, values and gradients are those of the plain formula."""
    torch.manual_seed(3)
    shapes = ((2, 7, 5), (2, 6, 5), (5,))
    keys, query, weight = start = [torch.randn(*shape).double().requires_grad_() for shape in shapes]
    for size, scale in itertools.product((1, 80, 1 << 20), (1.0, 100.0, 1000.0)):
        monkeypatch.setitem(joint_logits.__globals__, "_SLICE", size)
        keys, query, weight = (
            tensor.detach() * factor for tensor, factor in zip(start, (scale, scale, 1), strict=True)
        )
        for tensor in (keys, query, weight):
            tensor.requires_grad_()
        plain = torch.sigmoid(keys[:, None] + query[:, :, None]) @ weight
        plain_grads = torch.autograd.grad((plain * plain.detach().sin()).sum(), [keys, query, weight])
        ours = joint_logits(keys, query, weight)
        torch.testing.assert_close(ours, plain)
        ours_grads = torch.autograd.grad((ours * ours.detach().sin()).sum(), [keys, query, weight])
        for mine, theirs in zip(ours_grads, plain_grads, strict=True):
            torch.testing.assert_close(mine, theirs)
    assert torch.autograd.gradcheck(joint_logits, start)


def test_each_word_has_a_map_of_its_own(make):
    model = make(modulation="paired")
    images, sentences = model.encode_images(random_features(regions=9)), model.encode_sentences(SENTENCES[:2])
    pairs = torch.tensor([[1, 0], [2, 0]])
    with torch.no_grad():
        maps = model.word_maps(images, sentences, pairs)
    assert maps.shape == (2, 7, 9)
    torch.testing.assert_close(maps.sum(2), torch.ones(2, 7, dtype=torch.double))
    assert (maps[0, 2] - maps[0, 6]).abs().max() > 1e-6, "dog and beach are sought in different places"
    with pytest.raises(InputError, match="no map for each word"):
        make(modulation="gated").word_maps(images, sentences, pairs)
