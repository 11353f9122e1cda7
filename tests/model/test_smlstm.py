import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from smlstm.errors import InputError
from smlstm.matching.batch import Tokens, join
from smlstm.model import SMLSTM, compact
from tests.model import literal
from tests.model.conftest import SENTENCES, random_features

VARIANTS = ["mean", "att", "ctx", "full"]
MODULATIONS = ["separate", "joint", "gated", "paired"]
FORMS = list(itertools.product(MODULATIONS, ["additive", "product"]))
ALL = [(variant, *form) for variant in VARIANTS for form in FORMS]
property_test = settings(max_examples=25)


@pytest.mark.parametrize(
    "added",
    [
        {},
        {"global_score": True},
        {"global_score": True, "image_pooling": "max"},
        {"global_score": True, "instance_score": True},
    ],
)
@pytest.mark.parametrize(("variant", "modulation", "comparison"), ALL)
def test_whole_model_is_that_of_the_equations(make, variant, modulation, comparison, added):
    model = make(variant=variant, modulation=modulation, comparison=comparison, **added)
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


words_of = st.lists(
    st.lists(st.sampled_from(["a", "red", "dog", "runs", "zebra"]), min_size=1, max_size=9), min_size=1, max_size=5
)


@property_test
@given(words_of, st.integers(1, 12), st.sampled_from(["mean", "att", "full"]), st.sampled_from(MODULATIONS))
def test_saliency_sums_to_one_and_is_zero_on_padding(make, texts, regions, variant, modulation):
    model = make(variant=variant, modulation=modulation)
    lengths = torch.tensor([len(text) for text in texts])
    images = model.encode_images(random_features(images=2, regions=regions))
    pairs = torch.tensor([[i, k] for i in range(2) for k in range(len(texts))])
    with torch.no_grad():
        maps = model.attend(images, model.encode_sentences([" ".join(text) for text in texts]), pairs)
    assert maps.image.shape == (len(pairs), 3, regions)
    assert maps.sentence.shape == (len(pairs), 3, lengths.max())
    ones = torch.ones(len(pairs), 3).double()
    torch.testing.assert_close(maps.image.sum(-1), ones)
    torch.testing.assert_close(maps.sentence.sum(-1), ones)
    padding = torch.arange(int(lengths.max())) >= lengths[pairs[:, 1]][:, None]
    assert (maps.sentence.transpose(1, 2)[padding] == 0).all()


@property_test
@given(st.permutations(range(5)), st.sampled_from(MODULATIONS))
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
    st.sampled_from(MODULATIONS),
)
def test_a_pair_does_not_depend_on_the_rest_of_the_batch(make, rows, columns, variant, modulation):
    model = make(variant=variant, modulation=modulation)
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


@property_test
@given(st.integers(1, 4), st.sampled_from(["mean", "att", "full"]), st.sampled_from(MODULATIONS))
def test_fewer_steps_are_the_first_of_more(make, count, variant, modulation):
    """T = 1 is the first step of T = 3, and so on for every T."""
    more, fewer = (
        make(steps=4, variant=variant, modulation=modulation),
        make(steps=count, variant=variant, modulation=modulation),
    )
    fewer.load_state_dict(more.state_dict())
    pairs = torch.tensor([[i, k] for i in range(4) for k in range(5)])
    with torch.no_grad():
        images, sentences = more.encode_images(random_features()), more.encode_sentences(SENTENCES)
        expected = more.attend(images, sentences, pairs)
        maps = fewer.attend(images, sentences, pairs)
        scores = fewer.score(images, sentences)
    torch.testing.assert_close(scores.flatten(), expected.scores[:, count - 1])
    torch.testing.assert_close(maps.image, expected.image[:, :count])
    torch.testing.assert_close(maps.sentence, expected.sentence[:, :count])


@pytest.mark.parametrize("added", [{}, {"global_score": True, "instance_score": True}])
@pytest.mark.parametrize("variant", VARIANTS)
def test_chosen_pairs_are_those_of_the_grid(make, variant, added):
    """Scores and maps are the same on a grid, off a grid, and pair by pair."""
    model = make(variant=variant, modulation="joint", **added)
    images, sentences = model.encode_images(random_features()), model.encode_sentences(SENTENCES)
    pairs = torch.tensor([[3, 0], [0, 4], [2, 2], [0, 4]])
    with torch.no_grad():
        grid = model.score(images, sentences)
        alone = model.score_pairs(images.select(pairs[:, 0]), sentences.select(pairs[:, 1]))
    torch.testing.assert_close(alone, grid[pairs[:, 0], pairs[:, 1]])
    if variant == "ctx":
        with pytest.raises(InputError, match="`ctx` has no attention"):
            model.score_terms(images, sentences, pairs)
        return
    with torch.no_grad():
        terms, chosen = model.score_terms(images, sentences, pairs)
        maps = model.attend(images, sentences, pairs)
    torch.testing.assert_close(terms.sum(2), grid)
    torch.testing.assert_close(chosen.scores[:, -1], alone)
    torch.testing.assert_close(chosen.scores, maps.scores)
    torch.testing.assert_close(chosen.image, maps.image)
    torch.testing.assert_close(chosen.sentence, maps.sentence)


@pytest.mark.parametrize(("modulation", "comparison"), FORMS)
def test_gradients_reach_every_weight(make, modulation, comparison):
    model = make(modulation=modulation, comparison=comparison).train()
    model.score(
        model.encode_images(random_features(regions=9)), model.encode_sentences(SENTENCES)
    ).square().sum().backward()
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


def test_the_size_of_features_does_not_matter(make):
    """They are divided by their root mean square."""
    features, model = random_features(), make()
    larger = type(features)(features.regions * 3, features.context * 3)
    sentences = model.encode_sentences(SENTENCES)
    with torch.no_grad():
        one, other = (model.score(model.encode_images(given), sentences) for given in (features, larger))
    assert torch.allclose(one, other, atol=1e-5)


def test_large_features_survive_half_precision(make):
    model = make().half()
    features = random_features()
    large = type(features)((features.regions * 400).half(), (features.context * 400).half())
    with torch.no_grad():
        images = model.encode_images(large)
    assert torch.isfinite(images.candidates).all()
    assert images.candidates.std() > 0.1


def test_words_drop_out_in_training_only(make):
    model = make(dropout=0.5)
    with torch.no_grad():
        quiet = [model.encode_sentences(SENTENCES).candidates for _ in range(2)]
        loud = [model.train().encode_sentences(SENTENCES).candidates for _ in range(2)]
    assert torch.equal(*quiet)
    assert not torch.equal(*loud)


def test_an_image_loses_the_same_channels_in_all_regions_and_in_training_only(make):
    model = make(feature_dropout=0.5)
    same = random_features(images=1, regions=1)
    twins = type(same)(same.regions.expand(2, 5, -1), same.context.expand(2, -1))
    with torch.no_grad():
        quiet, loud = model.encode_images(twins), model.train().encode_images(twins)
    assert torch.equal(quiet.candidates[0], quiet.candidates[1])
    for seen in (loud.candidates, loud.keys):
        assert torch.allclose(seen, seen[:, :1].expand_as(seen))
        assert not torch.allclose(seen[0], seen[1])
    assert not torch.allclose(loud.reference[0], loud.reference[1])


def test_the_forget_gate_starts_open(vocabulary):
    gates = SMLSTM(compact(6, 6).model, vocabulary).aggregation.similarity.bias.chunk(4)
    assert (gates[1] == 1).all()
