"""Convolutions as matrix products are the convolutions."""

import pytest
import torch
from torch import nn

from smlstm.vision.backbones.base import as_regions
from smlstm.vision.backbones.efficientnet_lite import EfficientNetLite, load
from smlstm.vision.backbones.products import as_channels, depthwise, pointwise


@pytest.mark.parametrize("kernel", [3, 5])
@pytest.mark.parametrize(("stride", "margins"), [(1, None), (2, (1, 0)), (2, (0, 1)), (2, (2, 1))])
def test_a_convolution_of_single_channels(kernel, stride, margins):
    torch.manual_seed(0)
    before, behind = margins or (kernel // 2, kernel // 2)
    convolution = nn.Conv2d(3, 3, kernel, stride, groups=3).double()
    photos = torch.randn(2, 3, 8, 8).double()
    expected = convolution(nn.functional.pad(photos, (before, behind, before, behind)))
    found = depthwise(as_channels(as_regions(photos), torch.double), convolution, (before, behind), 2)
    torch.testing.assert_close(found.view(3, 2, -1).transpose(0, 1), expected.flatten(2))


def test_a_convolution_of_single_cells():
    torch.manual_seed(0)
    convolution = nn.Conv2d(3, 7, 1).double()
    photos = torch.randn(2, 3, 4, 4).double()
    found = pointwise(as_channels(as_regions(photos), torch.double), convolution)
    torch.testing.assert_close(found.view(7, 2, -1).transpose(0, 1), convolution(photos).flatten(2))


@pytest.mark.parametrize("below", [9, 16])
def test_upper_blocks_learn_the_same_in_products(below):
    network = load("efficientnet-lite0").network if below == 9 else load("efficientnet-lite2").network
    assert isinstance(network, EfficientNetLite)
    network = network.requires_grad_(True)
    torch.manual_seed(0)
    with torch.no_grad():
        cells = as_regions(network.lower(torch.randn(2, 3, 128, 128), below))
    found = []
    for way in ("convolutions", "products"):
        network.zero_grad()
        if way == "convolutions":
            side = int(cells.shape[1] ** 0.5)
            regions, context = network.upper(cells.transpose(1, 2).view(2, -1, side, side), below)
        else:
            regions, context = network.upper_in_products(cells, below, torch.float32)
        (regions.square().mean() + context.mean()).backward()
        learned = {name: each.grad.clone() for name, each in network.named_parameters() if network.learns(name, below)}
        found.append((regions, context, learned))
    for one, other in zip(found[0][:2], found[1][:2], strict=True):
        torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-4)
    assert found[0][2].keys() == found[1][2].keys()
    for name, gradient in found[0][2].items():
        torch.testing.assert_close(gradient, found[1][2][name], atol=1e-5, rtol=1e-3)
