import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from smlstm.batch import Tokens, join
from smlstm.errors import InputError
from tests.model import literal
from tests.model.conftest import SENTENCES, random_features

VARIANTS = ["mean", "att", "ctx", "full"]
FORMS = list(itertools.product(["separate", "joint", "gated"], ["additive", "product"]))
ALL = [(variant, *form) for variant in VARIANTS for form in FORMS]
property_test = settings(max_examples=25)


@pytest.mark.parametrize(("variant", "modulation", "comparison"), ALL)
def test_whole_model_is_that_of_the_equations(make, variant, modulation, comparison):
    model = make(variant=variant, modulation=modulation, comparison=comparison)
    features = random_features()
    images, sentences = model.encode_images(features), model.encode_sentences(SENTENCES)
    with torch.no_grad():
        scores = model.score(images, sentences)
    weights = literal.weights_of(model)
    pairs = [(i, k) for i in range(4) for k in range(len(SENTENCES))]
    maps = None
    if variant != "ctx":
        with torch.no_grad():
            maps = model.attend(images, sentences, torch.tensor(pairs))
    for number, (i, k) in enumerate(pairs):
        ids = model.vocabulary.encode(SENTENCES[k]).ids
        steps, p, q = literal.smlstm(
            model.config, weights, features.regions[i].numpy(), features.context[i].numpy(), ids
        )
        assert scores[i, k].item() == pytest.approx(steps[-1], abs=1e-10)
        if maps is not None:
            np.testing.assert_allclose(maps.image[number], p, atol=1e-10)
            np.testing.assert_allclose(maps.sentence[number, :, : len(ids)], q, atol=1e-10)
            np.testing.assert_allclose(maps.scores[number], steps, atol=1e-10)


@pytest.mark.parametrize("variant", ["mean", "att", "full"])
@pytest.mark.parametrize("modulation", ["joint", "gated"])
def test_saliency_sums_to_one_and_is_zero_on_padding(make, variant, modulation):
    model = make(variant=variant, modulation=modulation)
    images, sentences = model.encode_images(random_features()), model.encode_sentences(SENTENCES)
    pairs = torch.tensor([[i, k] for i in range(4) for k in range(5)])
    with torch.no_grad():
        maps = model.attend(images, sentences, pairs)
    longest = max(len(model.vocabulary.encode(sentence).ids) for sentence in SENTENCES)
    assert maps.image.shape == (20, 3, 10)
    assert maps.sentence.shape == (20, 3, longest)
    torch.testing.assert_close(maps.image.sum(-1), torch.ones(20, 3).double())
    torch.testing.assert_close(maps.sentence.sum(-1), torch.ones(20, 3).double())
    lengths = torch.tensor([len(model.vocabulary.encode(SENTENCES[k]).ids) for k in pairs[:, 1]])
    padding = torch.arange(longest) >= lengths[:, None]
    assert (maps.sentence.transpose(1, 2)[padding] == 0).all()


@property_test
@given(st.permutations(range(5)), st.sampled_from(["joint", "gated"]))
def test_permuting_sentences_permutes_columns(make, order, modulation):
    model = make(modulation=modulation)
    images = model.encode_images(random_features())
    with torch.no_grad():
        scores = model.score(images, model.encode_sentences(SENTENCES))
        permuted = model.score(images, model.encode_sentences([SENTENCES[k] for k in order]))
    torch.testing.assert_close(permuted, scores[:, list(order)])


@property_test
@given(
    st.lists(st.integers(0, 3), min_size=1, max_size=4),
    st.lists(st.integers(0, 4), min_size=1, max_size=5),
    st.sampled_from(VARIANTS),
)
def test_a_pair_does_not_depend_on_the_rest_of_the_batch(make, rows, columns, variant):
    model = make(variant=variant, modulation="gated")
    features = random_features()
    with torch.no_grad():
        scores = model.score(model.encode_images(features), model.encode_sentences(SENTENCES))
        part = model.score(
            model.encode_images(features.select(torch.tensor(rows))),
            model.encode_sentences([SENTENCES[k] for k in columns]),
        )
    torch.testing.assert_close(part, scores[rows][:, columns])


@property_test
@given(st.integers(1, 20))
def test_more_padding_changes_no_score(make, padding):
    model = make()
    images, tokens = model.encode_images(random_features()), model.tokens(SENTENCES)
    padded = Tokens(torch.nn.functional.pad(tokens.ids, (0, padding)), tokens.lengths)
    with torch.no_grad():
        torch.testing.assert_close(
            model.score(images, model.encode_sentences(padded)), model.score(images, model.encode_sentences(tokens))
        )


@pytest.mark.parametrize("modulation", ["joint", "gated"])
def test_one_step_is_the_first_of_three(make, modulation):
    three, one = make(steps=3, modulation=modulation), make(steps=1, modulation=modulation)
    one.load_state_dict(three.state_dict())
    pairs = torch.tensor([[i, k] for i in range(4) for k in range(5)])
    with torch.no_grad():
        images, sentences = three.encode_images(random_features()), three.encode_sentences(SENTENCES)
        first = three.attend(images, sentences, pairs)
        scores = one.score(one.encode_images(random_features()), one.encode_sentences(SENTENCES))
        maps = one.attend(images, sentences, pairs)
    torch.testing.assert_close(scores.flatten(), first.scores[:, 0])
    torch.testing.assert_close(maps.image, first.image[:, :1])


@pytest.mark.parametrize("variant", VARIANTS)
def test_chosen_pairs_are_those_of_the_grid(make, variant):
    """Scores and maps are the same on a grid, off a grid, and pair by pair."""
    model = make(variant=variant, modulation="joint")
    images, sentences = model.encode_images(random_features()), model.encode_sentences(SENTENCES)
    pairs = torch.tensor([[3, 0], [0, 4], [2, 2], [0, 4]])
    with torch.no_grad():
        grid = model.score(images, sentences)
        scores, chosen = model.score_and_attend(images, sentences, pairs)
        alone = model.score_pairs(images.select(pairs[:, 0]), sentences.select(pairs[:, 1]))
    torch.testing.assert_close(scores, grid)
    torch.testing.assert_close(alone, grid[pairs[:, 0], pairs[:, 1]])
    torch.testing.assert_close(chosen.scores[:, -1], alone)
    if variant != "ctx":
        with torch.no_grad():
            maps = model.attend(images, sentences, pairs)
        torch.testing.assert_close(chosen.image, maps.image)
        torch.testing.assert_close(chosen.sentence, maps.sentence)


@pytest.mark.parametrize(("modulation", "comparison"), FORMS)
def test_gradients_reach_every_weight(make, modulation, comparison):
    model = make(modulation=modulation, comparison=comparison).train()
    model.score(model.encode_images(random_features()), model.encode_sentences(SENTENCES)).square().sum().backward()
    # In the print, a softmax over i removes what is constant in i: those weights cannot learn.
    idle = ("attention.context", "attention.hidden", "sentence_context") if modulation == "separate" else ()
    for name, parameter in model.named_parameters():
        constant = name.endswith("attention.output.bias") or any(part in name for part in idle)
        size = parameter.grad.abs().max().item()
        assert size < 1e-12 if constant else size > 1e-9, f"{name}: {size}"


def test_joined_batches_score_like_one(make):
    model = make()
    images = model.encode_images(random_features())
    parts = [model.encode_sentences(SENTENCES[:2]), model.encode_sentences(SENTENCES[2:])]
    with torch.no_grad():
        torch.testing.assert_close(
            model.score(images, join(parts)), model.score(images, model.encode_sentences(SENTENCES))
        )


def test_context_only_has_no_maps(make):
    model = make(variant="ctx")
    images, sentences = model.encode_images(random_features()), model.encode_sentences(SENTENCES)
    assert not model.attends
    with pytest.raises(InputError, match="`ctx` has no attention"):
        model.attend(images, sentences, torch.tensor([[0, 0]]))


def test_any_grid_will_do(make):
    """I is data: the same weights read a grid of another size."""
    model = make()
    with torch.no_grad():
        scores = model.score(model.encode_images(random_features(regions=3)), model.encode_sentences(SENTENCES))
    assert torch.isfinite(scores).all()
