import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from smlstm.matching.batch import Saliency
from smlstm.model.config import ObjectiveConfig
from smlstm.model.objective import collapse_loss, doubly_stochastic, draw, ranking_loss, regulariser
from tests.model import literal


@given(st.integers(0, 2**32 - 1), st.sampled_from(["sum", "hardest"]), st.integers(2, 6), st.integers(2, 9))
def test_loss_is_that_of_the_equation(seed, form, images, sentences):
    """Any number of captions an image, repeated rows too; other captions of the image never count."""
    generator = np.random.default_rng(seed)
    scores = generator.normal(size=(images, sentences))
    rows = generator.integers(0, images, images)
    columns = generator.integers(0, images, sentences)
    columns[0] = rows[0]
    config = ObjectiveConfig(margin=0.2, negatives=None, form=form)
    loss = ranking_loss(torch.tensor(scores), torch.tensor(rows), torch.tensor(columns), config)
    assert loss.item() == pytest.approx(literal.ranking_loss(scores, list(rows), list(columns), 0.2, form))


@given(st.integers(0, 2**32 - 1), st.floats(0.05, 2.0), st.integers(2, 6), st.integers(2, 9))
def test_contrast_is_that_of_the_equation(seed, temperature, images, sentences):
    generator = np.random.default_rng(seed)
    scores = generator.normal(size=(images, sentences))
    rows = generator.integers(0, images, images)
    columns = generator.integers(0, images, sentences)
    columns[0] = rows[0]
    config = ObjectiveConfig(negatives=None, form="contrast", temperature=temperature)
    loss = ranking_loss(torch.tensor(scores), torch.tensor(rows), torch.tensor(columns), config)
    assert loss.item() == pytest.approx(literal.contrast_loss(scores, list(rows), list(columns), temperature))


def test_another_caption_of_the_same_image_is_not_mismatched():
    scores = torch.tensor([[1.0, 9.0, 0.0], [0.0, 0.0, 1.0]], dtype=torch.double)
    columns = torch.tensor([0, 0, 1])
    loss = ranking_loss(scores, torch.tensor([0, 1]), columns, ObjectiveConfig())
    assert loss.item() == 0, "9.0 is the image's own second caption"


@pytest.mark.parametrize("form", ["sum", "hardest", "contrast"])
def test_gradients_of_the_loss(form):
    torch.manual_seed(0)
    scores = torch.randn(5, 5, dtype=torch.double, requires_grad=True)
    config = ObjectiveConfig(form=form)
    assert torch.autograd.gradcheck(lambda s: ranking_loss(s, torch.arange(5), torch.arange(5), config), scores)


@given(st.integers(1, 12), st.integers(0, 1000))
def test_a_given_number_of_mismatched_pairs_is_drawn(count, seed):
    mismatched = torch.rand(7, 12, generator=torch.Generator().manual_seed(seed)) < 0.6
    kept = draw(mismatched, count, torch.Generator().manual_seed(seed))
    assert (kept & ~mismatched).sum() == 0
    assert kept.sum(1).tolist() == mismatched.sum(1).clamp(max=count).tolist()


def test_drawing_is_uniform():
    mismatched = torch.ones(20000, 5, dtype=torch.bool)
    mismatched[:, 2] = False
    share = draw(mismatched, 2, torch.Generator().manual_seed(0)).double().mean(0)
    np.testing.assert_allclose(share, [0.5, 0.5, 0, 0.5, 0.5], atol=0.02)


@pytest.mark.parametrize(
    ("form", "negatives"),
    [("sum", 100), ("sum", 7), ("sum", None), ("hardest", None), ("contrast", None), ("contrast", 7)],
)
def test_equal_scores_cost_the_collapse_loss(form, negatives):
    config = ObjectiveConfig(form=form, negatives=negatives)
    loss = ranking_loss(torch.full((21, 21), 0.5), torch.arange(21), torch.arange(21), config)
    assert loss.item() == pytest.approx(collapse_loss(config, mismatched=20), rel=1e-5)


def test_no_matched_pair_is_an_error():
    with pytest.raises(ValueError, match="needs a matched pair"):
        ranking_loss(torch.zeros(1, 1), torch.tensor([0]), torch.tensor([1]), ObjectiveConfig())


def maps(pairs=3, steps=4, candidates=6, real=4):
    torch.manual_seed(0)
    logits = torch.randn(pairs, steps, candidates, dtype=torch.double)
    mask = torch.arange(candidates).expand(pairs, -1) < real
    return logits.requires_grad_(), mask


def test_regulariser_is_that_of_the_equation_squared():
    logits, mask = maps()
    p = torch.softmax(logits.masked_fill(~mask[:, None], -torch.inf), -1)
    expected = np.mean([literal.doubly_stochastic(row.detach().numpy(), 4, 2) / 4 for row in p])
    assert doubly_stochastic(p, mask).item() == pytest.approx(expected)


def test_regulariser_adds_both_sides_times_lambda():
    logits, mask = maps()
    p = torch.softmax(logits, -1).detach()
    q = torch.softmax(logits.flip(0).masked_fill(~mask[:, None], -torch.inf), -1).detach()
    cost = regulariser(Saliency(p, q, p.sum(-1)), mask, ObjectiveConfig(regulariser=3.0))
    expected = [
        literal.doubly_stochastic(image.numpy(), 6, 2) / 6 + literal.doubly_stochastic(words.numpy(), 4, 2) / 4
        for image, words in zip(p, q, strict=True)
    ]
    assert cost.item() == pytest.approx(3.0 * np.mean(expected))


def test_a_mask_of_another_width_is_refused():
    with pytest.raises(ValueError, match="does not fit"):
        doubly_stochastic(torch.ones(2, 3, 1), torch.ones(2, 5, dtype=torch.bool))


def test_drawn_negatives_are_an_unbiased_part_of_all():
    torch.manual_seed(0)
    scores, images = torch.randn(9, 9), torch.arange(9)
    config = ObjectiveConfig(negatives=2)

    def loss(seed):
        return ranking_loss(scores, images, images, config, torch.Generator().manual_seed(seed)).item()

    assert loss(1) == loss(1)
    assert loss(1) != loss(2)
    whole = ranking_loss(scores, images, images, ObjectiveConfig(negatives=None)).item()
    assert np.mean([loss(seed) for seed in range(400)]) == pytest.approx(whole * 2 / 8, rel=0.03)


def test_the_printed_regulariser_has_no_gradient_and_ours_has():
    logits, mask = maps(candidates=6, real=6)
    p = torch.softmax(logits, -1)
    printed = (1 - p.sum(1)).sum()
    assert printed.item() == pytest.approx(3 * (6 - 4)), "the constant I - T for each of the pairs"
    assert torch.autograd.grad(printed, logits, retain_graph=True)[0].abs().max() < 1e-12
    ours = doubly_stochastic(p, mask)
    assert torch.autograd.grad(ours, logits)[0].abs().max() > 1e-3


def test_gradients_of_the_regulariser():
    logits, mask = maps()
    config = ObjectiveConfig(regulariser=3.0)

    def cost(image, sentence):
        real = torch.softmax(sentence.masked_fill(~mask[:, None], -torch.inf), -1)
        return regulariser(Saliency(torch.softmax(image, -1), real, image.sum(-1)), mask, config)

    other = logits.detach().flip(2).clone().requires_grad_()
    assert torch.autograd.gradcheck(cost, (logits, other))


def test_more_padding_changes_no_regulariser():
    p = torch.softmax(torch.randn(2, 3, 4), -1)
    padded = torch.nn.functional.pad(p, (0, 5))
    mask = torch.ones(2, 4, dtype=torch.bool)
    torch.testing.assert_close(
        doubly_stochastic(padded, torch.nn.functional.pad(mask, (0, 5))), doubly_stochastic(p, mask)
    )
