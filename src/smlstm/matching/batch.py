"""Batches: named tensors that share their first dimension, so that they can be cut, moved and joined alike."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

import torch
from numpy.typing import NDArray
from torch import Tensor

from smlstm.errors import InputError

BatchType = TypeVar("BatchType", bound="Batch")


@dataclass(frozen=True)
class Batch:
    """Items of one kind. Every field is a tensor whose first dimension counts the items, a batch, a tuple, or None."""

    def __len__(self) -> int:
        first = next(value for value in self._values() if value is not None)
        return len(first[0] if isinstance(first, tuple) else first)

    def _values(self) -> list[Any]:
        return [getattr(self, field.name) for field in fields(self)]

    def select(self: BatchType, index: Tensor | slice) -> BatchType:
        """Take some items: a slice (a view) or a tensor of indices (a copy)."""
        return self._map(lambda tensor: tensor[index])

    def to(self: BatchType, device: torch.device | str) -> BatchType:
        """Move every tensor to a device."""
        return self._map(lambda tensor: tensor.to(device))

    def in_float32(self: BatchType) -> BatchType:
        """Every number that is not whole in single precision."""
        return self._map(lambda tensor: tensor.float() if tensor.is_floating_point() else tensor)

    def _map(self: BatchType, change: Callable[[Tensor], Tensor]) -> BatchType:
        changed = {field.name: _map_value(getattr(self, field.name), change) for field in fields(self)}
        return replace(self, **changed)


def _map_value(value: Any, change: Callable[[Tensor], Tensor]) -> Any:
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, Batch):
        return value._map(change)
    if isinstance(value, tuple):
        return tuple(_map_value(part, change) for part in value)
    return value


def join(batches: Sequence[BatchType]) -> BatchType:
    """Put batches of one kind behind each other; sentences of different length are padded with zeros.

    Images of different numbers of regions are refused: nothing marks a region as padding.
    """
    first = batches[0]
    padded = any(getattr(first, name, None) is not None for name in ("mask", "lengths"))
    joined = {
        field.name: _join_values([getattr(batch, field.name) for batch in batches], padded) for field in fields(first)
    }
    return replace(first, **joined)


def _join_values(values: Sequence[Any], padded: bool) -> Any:
    if isinstance(values[0], Tensor):
        return torch.cat(_pad_second_dimension(values, padded))
    if isinstance(values[0], Batch):
        return join(values)
    if isinstance(values[0], tuple):
        return tuple(_join_values(parts, padded) for parts in zip(*values, strict=True))
    return values[0]


def _pad_second_dimension(tensors: Sequence[Tensor], padded: bool) -> list[Tensor]:
    if tensors[0].dim() < 2 or len({tensor.shape[1] for tensor in tensors}) == 1:
        return list(tensors)
    if not padded:
        raise InputError("images with different numbers of regions cannot share a batch: extract them with one grid")
    longest = max(tensor.shape[1] for tensor in tensors)
    return [
        torch.cat([tensor, tensor.new_zeros(len(tensor), longest - tensor.shape[1], *tensor.shape[2:])], dim=1)
        for tensor in tensors
    ]


@dataclass(frozen=True)
class ImageFeatures(Batch):
    """What a frozen CNN gives for M images."""

    regions: Tensor  # M, I, F: the a_i, row by row over the grid
    context: Tensor  # M, D: the global context m

    @classmethod
    def from_numpy(cls, regions: NDArray[Any], context: NDArray[Any]) -> "ImageFeatures":
        """From arrays, as stores and backbones give them."""
        return cls(torch.from_numpy(regions), torch.from_numpy(context))

    def __post_init__(self) -> None:
        if self.regions.dim() != 3 or self.context.dim() != 2 or len(self.regions) != len(self.context):
            raise InputError(
                f"image features must be regions (M, I, F) and context (M, D) of the same M images, "
                f"not {tuple(self.regions.shape)} and {tuple(self.context.shape)}"
            )
        if self.regions.shape[1] == 0:
            raise InputError("image features have no regions (I = 0): there is nothing to look at")


@dataclass(frozen=True)
class Tokens(Batch):
    """N sentences as rows of the vocabulary, padded with zeros at the end."""

    ids: Tensor  # N, J
    lengths: Tensor  # N: real words of each sentence, at least 1
    vectors: Tensor | None = None  # N, J, width: as a language model reads them, for matchers that want that
    phrases: Tensor | None = None  # N, J: which phrase a word is of, from 1 on, for matchers that want that; 0: none

    @property
    def mask(self) -> Tensor:
        """True where a word is real, False on padding; N, J."""
        return torch.arange(self.ids.shape[1], device=self.ids.device) < self.lengths[:, None]

    def without_padding(self) -> "Tokens":
        """Only as many columns as the longest sentence needs."""
        longest = int(self.lengths.max())
        vectors, phrases = (None if each is None else each[:, :longest] for each in (self.vectors, self.phrases))
        return Tokens(self.ids[:, :longest], self.lengths, vectors, phrases)


@dataclass(frozen=True)
class Saliency(Batch):
    """Where P pairs were looked at, step by step: each map sums to 1 and is 0 on padding."""

    image: Tensor  # P, T, I: the p_t
    sentence: Tensor  # P, T, J: the q_t
    scores: Tensor  # P, T: the matching score as it stands after each step
    words: Tensor | None = None  # P, J, I: where each word is by itself; None of a matcher that cannot say it
    whole: Tensor | None = None  # P: what of the scores no step has a part in; None: nothing
