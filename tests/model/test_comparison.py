import numpy as np
import pytest
import torch

from smlstm.model.comparison import Comparison, attended, cosines, found_cosines, lengths
from tests.model import literal


@pytest.mark.parametrize("form", ["additive", "product"])
def test_similarity_is_that_of_the_equation(form):
    torch.manual_seed(0)
    comparison = Comparison(4, 5, 3, form).double().eval()
    regions, words = torch.randn(2, 6, 4).double(), torch.randn(3, 7, 5).double()
    p = torch.softmax(torch.randn(2, 3, 6).double(), -1)  # image, sentence, region
    q = torch.softmax(torch.randn(3, 2, 7).double(), -1)  # sentence, image, word
    seen = attended(p, comparison.image(regions))
    said = attended(q, comparison.sentence(words)).transpose(0, 1)
    similarity = comparison(seen, said)
    weights = literal.weights_of(comparison)
    for i in range(2):
        for k in range(3):
            a = sum(p[i, k, r].item() * regions[i, r].numpy() for r in range(6))
            w = sum(q[k, i, j].item() * words[k, j].numpy() for j in range(7))
            np.testing.assert_allclose(similarity[i, k].detach(), literal.compare(weights, form, a, w), atol=1e-12)


@pytest.mark.parametrize("form", ["additive", "product"])
def test_gradients_of_the_comparison(form):
    comparison = Comparison(4, 5, 3, form).double().eval()
    inputs = [torch.randn(2, 1, 3).double().requires_grad_(), torch.randn(1, 2, 3).double().requires_grad_()]
    assert torch.autograd.gradcheck(comparison, inputs)


def test_dropout_is_for_training_only():
    comparison = Comparison(4, 5, 50, "product", dropout=0.5)
    one, other = torch.ones(2, 1, 50), torch.ones(1, 2, 50)
    assert (comparison(one, other) == 0).any()
    assert not (comparison.eval()(one, other) == 0).any()


def test_a_sentence_loses_the_same_units_with_every_image():
    torch.manual_seed(0)
    comparison = Comparison(4, 5, 50, "product", dropout=0.5).train()
    images, sentences = torch.rand(6, 1, 50) + 0.5, torch.rand(1, 4, 50) + 0.5
    lost = comparison(images, sentences) == 0  # 6, 4, 50
    assert (lost == lost[:1]).all()
    assert not (lost[0, 0] == lost[0, 1]).all(), "each sentence has its own"
    assert 0.3 < lost.double().mean() < 0.7


def test_cosines_and_lengths_do_not_need_what_is_attended():
    torch.manual_seed(0)
    regions, said = torch.randn(2, 6, 4).double(), torch.randn(2, 3, 4).double()
    p = torch.softmax(torch.randn(2, 3, 6).double(), -1)
    seen = attended(p, regions)
    torch.testing.assert_close(lengths(p, regions), torch.linalg.vector_norm(seen, dim=2))
    alike = regions @ torch.nn.functional.normalize(said, dim=2).transpose(1, 2)
    torch.testing.assert_close(found_cosines(p, alike, regions), cosines(seen, said))
