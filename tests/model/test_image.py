import numpy as np
import pytest
import torch
from torch import nn

from smlstm.model.image import scaled, with_some_channels


def test_each_image_is_divided_by_its_own_root_mean_square():
    torch.manual_seed(0)
    values = torch.randn(3, 4, 5).double() * torch.tensor([1.0, 50.0, 0.01])[:, None, None]
    found = scaled(values)
    for image in range(3):
        root = np.sqrt(np.mean(values[image].numpy() ** 2))
        np.testing.assert_allclose(found[image], values[image].numpy() / root, rtol=1e-3)


def test_the_gradient_is_that_of_the_division():
    torch.manual_seed(0)
    assert torch.autograd.gradcheck(scaled, (torch.randn(2, 3, 4, dtype=torch.double, requires_grad=True),))
    assert torch.autograd.gradcheck(scaled, (torch.randn(2, 3, dtype=torch.double, requires_grad=True),))


@pytest.mark.parametrize(("dtype", "largest"), [(torch.float16, 60_000), (torch.bfloat16, 1e6), (torch.float32, 1e6)])
def test_large_activations_and_black_photos_stay_numbers(dtype, largest):
    torch.manual_seed(0)
    values = (torch.rand(2, 3, 4) * largest).to(dtype)
    values[1] = 0
    values.requires_grad_()
    found = scaled(values)
    assert found.dtype == dtype
    np.testing.assert_allclose(found[0].detach().float().square().mean(), 1, rtol=0.02)
    assert not found[1].any()
    if dtype != torch.float16:  # in which nobody trains
        found.sum().backward()
        assert bool(values.grad.isfinite().all())


def test_an_image_loses_the_same_channels_everywhere():
    torch.manual_seed(0)
    dropout = nn.Dropout(0.5)
    found = with_some_channels(torch.ones(4, 9, 50), dropout)
    assert (found == found[:, :1]).all() and 0.3 < (found == 0).double().mean() < 0.7
    assert not (found[0] == found[1]).all(), "each image has its own"
    assert (with_some_channels(torch.ones(4, 9, 50), dropout.eval()) == 1).all()
