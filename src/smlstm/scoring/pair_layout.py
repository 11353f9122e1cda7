"""Which pairs are scored together, and how one side's items are spread over them.

The LSTM sees P pairs, one a row. Attention sees b items of one side with n pairs each (b, n). A pairing goes
between the two without copying an item for each of its pairs.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

Look = Callable[[Tensor, slice | Tensor], Tensor]
"""Queries b, n, A of some items, to what they see; b, n, S."""


class Pairing(ABC):
    """P pairs of images and sentences."""

    @abstractmethod
    def firsts(self, images: Tensor, sentences: Tensor) -> tuple[Tensor, Tensor]:
        """Vectors of both sides (B, S), broadcastable to the pairs."""

    @abstractmethod
    def spread(self, sentences: Tensor) -> Tensor:
        """Vectors of the sentences (B, A), one for each pair; P, A."""

    @abstractmethod
    def images(self, query: Tensor, look: Look) -> Tensor:
        """What each pair's query (P, A) sees in its image; broadcastable like `firsts`."""

    @abstractmethod
    def sentences(self, query: Tensor, look: Look) -> Tensor:
        """What each pair's query (P, A) sees in its sentence; broadcastable like `firsts`."""


class Grid(Pairing):
    """All pairs of m images and n sentences, image by image."""

    def __init__(self, images: int, sentences: int) -> None:
        self.shape = (images, sentences)

    def firsts(self, images: Tensor, sentences: Tensor) -> tuple[Tensor, Tensor]:
        """m, 1, S and 1, n, S."""
        return images[:, None], sentences[None]

    def spread(self, sentences: Tensor) -> Tensor:
        """All sentences for each image."""
        return sentences.expand(self.shape[0], *sentences.shape).flatten(0, 1)

    def images(self, query: Tensor, look: Look) -> Tensor:
        """m, n, S."""
        return look(query.view(*self.shape, -1), slice(None))

    def sentences(self, query: Tensor, look: Look) -> Tensor:
        """m, n, S."""
        return look(query.view(*self.shape, -1).transpose(0, 1), slice(None)).transpose(0, 1)


class Chosen(Pairing):
    """Some images with their own sentences: rows ascend, sentence k belongs to pair k."""

    def __init__(self, rows: Tensor) -> None:
        self.rows = rows
        self._lists = list(_lists(rows))

    def firsts(self, images: Tensor, sentences: Tensor) -> tuple[Tensor, Tensor]:
        """P, S and P, S."""
        return images[self.rows], sentences

    def spread(self, sentences: Tensor) -> Tensor:
        """Each pair has its own already."""
        return sentences

    def images(self, query: Tensor, look: Look) -> Tensor:
        """P, S; an image's regions are read once for all of its sentences."""
        seen: Tensor | None = None
        for lists in self._lists:
            grid = query.new_zeros(lists.images * lists.longest, query.shape[1])
            grid[lists.places] = query[lists.pairs]
            found = look(grid.view(lists.images, lists.longest, -1), lists.rows).flatten(0, 1)
            if seen is None:
                seen = found.new_empty(len(query), found.shape[1])
            seen[lists.pairs] = found[lists.places]  # copied at once: the next look may use the same memory
        assert seen is not None
        return seen

    def sentences(self, query: Tensor, look: Look) -> Tensor:
        """P, S."""
        return look(query[:, None], slice(None))[:, 0]


@dataclass(frozen=True)
class _Lists:
    """Images whose lists of sentences are about as long: they fill a grid of images x longest with little in vain."""

    images: int
    longest: int
    rows: slice | Tensor
    pairs: Tensor  # Q: their pairs among all
    places: Tensor  # Q: where those stand in the grid


def _lists(rows: Tensor) -> Iterator[_Lists]:
    """Images by the length of their lists, those together that are not twice as long as each other."""
    images, counts = torch.unique_consecutive(rows, return_counts=True)
    starts = counts.cumsum(0) - counts
    sizes = counts.float().log2().ceil()
    for size in sizes.unique():
        (chosen,) = (sizes == size).nonzero(as_tuple=True)
        owner = torch.repeat_interleave(counts[chosen])
        first = counts[chosen].cumsum(0) - counts[chosen]
        offset = torch.arange(len(owner), device=rows.device) - first[owner]
        longest = int(counts[chosen].max())
        found = images[chosen]
        low, high = int(found[0]), int(found[-1]) + 1
        yield _Lists(
            images=len(found),
            longest=longest,
            rows=slice(low, high) if high - low == len(found) else found,
            pairs=starts[chosen][owner] + offset,
            places=owner * longest + offset,
        )
