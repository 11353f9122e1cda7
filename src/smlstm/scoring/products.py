"""Matrix products in one precision, into memory that each thread keeps from tile to tile."""

import math
import threading

import torch
from torch import Tensor


class _Workspace(threading.local):
    """What one thread keeps."""

    def __init__(self) -> None:
        self.tensors: dict[str, Tensor] = {}


class Products:
    """Products in float32 or bfloat16; sums and results are float32.

    A result lives until the same thread's next product of the same name. Fresh memory for every tile would have to be
    mapped page by page, which at compact sizes takes as long as the arithmetic. No two threads share any: one scorer
    serves all threads of a server.
    """

    def __init__(self, dtype: torch.dtype) -> None:
        self.dtype = dtype
        self._workspace = _Workspace()

    def keep(self, name: str, shape: tuple[int, ...], like: Tensor) -> Tensor:
        """Memory by name, float32, of any shape; its content is whatever was there."""
        size = math.prod(shape)
        kept = self._workspace.tensors.get(name)
        if kept is None or kept.numel() < size:
            with torch.inference_mode(False):  # else it could never be written to outside of inference mode
                kept = self._workspace.tensors[name] = torch.empty(size, dtype=torch.float32, device=like.device)
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
