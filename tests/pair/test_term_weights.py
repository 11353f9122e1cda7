"""The weights of a score's terms: what tells right pairs from wrong ones counts, noise does not."""

import pytest
import torch

from smlstm.errors import InputError
from smlstm.pair.term_weights import fit_term_weights


def made(images=80, captions=3, apart=(2.0, 2.0, 0.0), scale=(1.0, 10.0, 1.0), seed=0):
    """Normal terms, matched pairs `apart` deviations higher."""
    generator = torch.Generator().manual_seed(seed)
    image_of = torch.arange(images).repeat_interleave(captions)
    terms = torch.randn(images, len(image_of), len(apart), generator=generator)
    terms[image_of, torch.arange(len(image_of))] += torch.tensor(apart)
    return terms * torch.tensor(scale), image_of


def test_terms_count_by_what_they_know_whatever_their_size():
    first, second, noise = fit_term_weights([made(), made(seed=1)])
    assert first == 1.0
    assert second == pytest.approx(0.1, rel=0.25), "ten times as large, so a tenth"
    assert noise < 0.1


def test_the_sum_ranks_better_than_all_alike():
    terms, image_of = made(images=200, apart=(2.5, 0.5, 0.0), scale=(1.0, 3.0, 3.0))
    weights = torch.tensor(fit_term_weights([(terms, image_of)]))
    other, _ = made(images=200, apart=(2.5, 0.5, 0.0), scale=(1.0, 3.0, 3.0), seed=5)

    def right(by):
        return float(((other * by).sum(2).argmax(0) == image_of).float().mean())

    assert right(weights) > right(torch.ones(3)) + 0.1


def test_a_term_that_misleads_counts_almost_nothing():
    weights = fit_term_weights([made(apart=(2.0, -1.0, 1.0), scale=(1.0, 1.0, 1.0))])
    assert weights[0] == 1.0 and weights[1] == 0.01 and 0.2 < weights[2] < 0.9


def test_terms_that_all_mislead_are_refused():
    with pytest.raises(InputError, match="has not learned to match"):
        fit_term_weights([made(apart=(-1.0, -2.0), scale=(1.0, 1.0))])
