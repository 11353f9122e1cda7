"""An image tower of the shape of CLIP's ViT-B/32, with random weights: its speed does not depend on them."""

import logging
import warnings
from pathlib import Path

import torch
from torch import nn


class VitB32(nn.Module):
    """An image tower of the shape of CLIP's ViT-B/32."""

    def __init__(self, width: int = 768, layers: int = 12, heads: int = 12, patch: int = 32, size: int = 224):
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch, bias=False)
        self.token = nn.Parameter(torch.randn(1, 1, width) * 0.02)
        self.places = nn.Parameter(torch.randn(1, (size // patch) ** 2 + 1, width) * 0.02)
        self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
        self.layers = nn.ModuleList(VitLayer(width, heads) for _ in range(layers))
        self.projection = nn.Linear(width, 512, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2)  # B, 49, width
        x = self.before(torch.cat([self.token.expand(len(x), -1, -1), x], 1) + self.places)
        for layer in self.layers:
            x = layer(x)
        return self.projection(self.after(x[:, 0]))


class VitLayer(nn.Module):
    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, tokens, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, tokens, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        weights = torch.softmax(q @ k.transpose(-1, -2) * (width // self.heads) ** -0.5, -1)
        x = x + self.out((weights @ v).transpose(1, 2).reshape(batch, tokens, width))
        y = self.up(self.norm2(x))
        return x + self.down(y * torch.sigmoid(1.702 * y))  # CLIP's approximation of GELU


def export_vit(file: Path, batch: int) -> None:
    """Write the tower, with random weights, as ONNX for batches of one size."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logging.getLogger("torch.onnx").setLevel(logging.ERROR)
        program = torch.onnx.export(VitB32().eval(), (torch.zeros(batch, 3, 224, 224),), dynamo=True, verbose=False)
    program.save(file)
