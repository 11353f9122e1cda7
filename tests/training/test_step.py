"""The loss of a batch: blocks, groups and sorted sentences change nothing but cost."""

import pytest
import torch

from smlstm.model.objective import ranking_loss, regulariser
from smlstm.training.step import BatchLoss, block_rows, encode_sentences, first_of_each, needs_regions
from tests.training.grids import example_batch, example_matcher, example_objective

KINDS = ["mnlm", "sm-lstm", "scan", "dvsa", "oem", "vse++"]


def gradients(loss: BatchLoss, batch) -> dict[str, torch.Tensor]:
    loss.zero_grad()
    loss(batch).sum().backward()
    return {name: parameter.grad.clone() for name, parameter in loss.named_parameters() if parameter.grad is not None}


@pytest.mark.parametrize("kind", KINDS)
def test_the_loss_is_that_of_the_plain_grid(kind):
    matcher, batch, objective = example_matcher(kind), example_batch(), example_objective()
    images, sentences = matcher.encode_images(batch.features), matcher.encode_sentences(batch.tokens)
    scores = matcher.score(images, sentences)
    expected = ranking_loss(scores, torch.arange(len(images)), batch.image_of, objective)
    found = BatchLoss(matcher, objective)(batch)
    torch.testing.assert_close(found[0], expected)
    if kind == "sm-lstm":
        pairs = torch.stack([batch.image_of, torch.arange(len(batch.image_of))], 1)
        maps = matcher.attend(images, sentences, pairs)
        torch.testing.assert_close(found[1], regulariser(maps, batch.tokens.mask, objective))
    else:
        assert found[1] == 0


def test_all_terms_of_a_score_are_ranked_on_their_own():
    matcher = example_matcher("sm-lstm", global_score=True, instance_score=True)
    batch, objective = example_batch(), example_objective()
    images, sentences = matcher.encode_images(batch.features), matcher.encode_sentences(batch.tokens)
    whole = images.whole @ sentences.whole.T
    agreement = torch.stack([step.agreement for step in matcher._run(images, sentences)]).mean(0)
    steps = matcher.score(images, sentences) - whole - agreement
    rows = torch.arange(len(images))
    expected = [ranking_loss(term, rows, batch.image_of, objective) for term in (steps, whole, agreement)]
    torch.testing.assert_close(BatchLoss(matcher, objective)(batch)[0], torch.stack(expected).mean())


def test_some_captions_are_ranked_by_the_global_score_alone():
    matcher = example_matcher("sm-lstm", global_score=True, instance_score=True)
    batch, objective = example_batch(), example_objective()
    some = first_of_each(batch.image_of, 1)
    assert len(some) == len(batch.images) < len(batch.image_of), "one of each image"
    images, sentences = matcher.encode_images(batch.features), matcher.encode_sentences(batch.tokens)
    terms, _ = matcher.score_terms(images, sentences.select(some))
    whole = images.whole @ sentences.whole.T
    rows, of = torch.arange(len(images)), batch.image_of
    expected = [ranking_loss(terms[:, :, term], rows, of[some], objective) for term in (0, 2)]
    expected.append(ranking_loss(whole, rows, of, objective))
    found = BatchLoss(matcher, objective, stepped_captions=1)(batch)
    torch.testing.assert_close(found[0], torch.stack(expected).mean())
    everything = BatchLoss(matcher, objective, stepped_captions=100)(batch)
    torch.testing.assert_close(everything, BatchLoss(matcher, objective)(batch))


def test_the_first_captions_of_each_image():
    assert first_of_each(torch.tensor([2, 0, 2, 2, 1, 0]), 1).tolist() == [0, 1, 4]
    assert first_of_each(torch.tensor([2, 0, 2, 2, 1, 0]), 2).tolist() == [0, 1, 2, 4, 5]


@pytest.mark.parametrize("modulation", ["gated", "joint"])
def test_blocks_that_are_computed_again_give_the_same_gradients(modulation):
    matcher, batch = example_matcher("sm-lstm", modulation=modulation, dropout=0.3), example_batch()
    small = BatchLoss(matcher, example_objective(), grid_bytes=100_000)
    images, sentences = matcher.encode_images(batch.features), matcher.encode_sentences(batch.tokens)
    rows = block_rows(matcher, images, sentences, 100_000)
    assert 1 <= rows < len(images)
    matcher.eval()
    whole, blocks = gradients(BatchLoss(matcher, example_objective()), batch), gradients(small, batch)
    for name, gradient in whole.items():
        torch.testing.assert_close(blocks[name], gradient, msg=name)
    matcher.train()
    torch.manual_seed(3)
    first = gradients(small, batch)
    torch.manual_seed(3)
    second = gradients(small, batch)
    assert all(torch.equal(first[name], second[name]) for name in first), "dropout is drawn again as it was"


@pytest.mark.parametrize("kind", KINDS)
def test_sentences_encoded_in_parts_score_the_same(kind):
    matcher, batch = example_matcher(kind), example_batch()
    images = matcher.encode_images(batch.features)
    whole = matcher.score(images, matcher.encode_sentences(batch.tokens))
    torch.testing.assert_close(matcher.score(images, encode_sentences(matcher, batch.tokens, parts=3)), whole)


@pytest.mark.parametrize(("kind", "expected"), [("mnlm", False), ("oem", False), ("scan", True), ("sm-lstm", True)])
def test_regions_are_read_only_for_who_looks_at_them(kind, expected):
    matcher, batch = example_matcher(kind), example_batch()
    assert needs_regions(matcher) is expected
    changed = type(batch.features)(batch.features.regions + 1, batch.features.context)
    scores = [
        matcher.score(matcher.encode_images(features), matcher.encode_sentences(batch.tokens))
        for features in (batch.features, changed)
    ]
    assert torch.equal(*scores) is not expected


def test_fewer_mismatched_pairs_can_be_drawn():
    matcher, batch = example_matcher("mnlm"), example_batch(24, 24)
    loss = BatchLoss(matcher, example_objective(negatives=5))
    found = [loss(batch, torch.Generator().manual_seed(seed))[0] for seed in (1, 1, 2)]
    assert found[0] == found[1] != found[2]
    assert found[0] < BatchLoss(matcher, example_objective())(batch)[0]
