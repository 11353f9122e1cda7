"""Matrix products in one precision, into memory that is kept from tile to tile."""

import math

import torch
from torch import Tensor


class Products:
    """Products in float32 or bfloat16; sums and results are float32.

    A result lives until the next product of the same name. Fresh memory for every tile would have to be mapped page
    by page, which at compact sizes takes as long as the arithmetic.
    """

    def __init__(self, dtype: torch.dtype) -> None:
        self.dtype = dtype
        self._kept: dict[str, Tensor] = {}

    def keep(self, name: str, shape: tuple[int, ...], like: Tensor) -> Tensor:
        """Memory by name, float32, of any shape; its content is whatever was there."""
        size = math.prod(shape)
        kept = self._kept.get(name)
        if kept is None or kept.numel() < size:
            kept = self._kept[name] = torch.empty(size, dtype=torch.float32, device=like.device)
        return kept[:size].view(shape)

    def linear(self, name: str, start: Tensor, x: Tensor, weight: Tensor) -> Tensor:
        """start + x weight; P, N from P, K and K, N; a start of one row counts for all."""
        out = self.keep(name, (len(x), weight.shape[1]), x)
        if self.dtype == torch.float32:
            return torch.addmm(start, x, weight, out=out)
        return torch.add(start, x.to(self.dtype) @ weight, out=out)

    def add_linear(self, target: Tensor, x: Tensor, weight: Tensor) -> Tensor:
        """target + x weight, in place."""
        if self.dtype == torch.float32:
            return target.addmm_(x, weight)
        return target.add_(x.to(self.dtype) @ weight)

    def batched(self, name: str, start: Tensor | None, x: Tensor, y: Tensor) -> Tensor:
        """start + x y; b, n, N from b, n, K and b, K, N."""
        out = self.keep(name, (len(x), x.shape[1], y.shape[2]), x)
        if self.dtype == torch.float32:
            return torch.bmm(x, y, out=out) if start is None else torch.baddbmm(start, x, y, out=out)
        result = torch.bmm(x.to(self.dtype), y)
        return out.copy_(result) if start is None else torch.add(start, result, out=out)
