"""Which pairs are scored together, and how one side's items are spread over them.

The LSTM sees P pairs, one a row. Attention sees b items of one side with n pairs each (b, n). A pairing goes
between the two without copying an item for each of its pairs.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable

import torch
from torch import Tensor

from smlstm.scoring.scorer import runs

Look = Callable[[Tensor, slice], Tensor]
"""Queries b, n, A of the items in a slice, to what they see; b, n, S."""


class Pairing(ABC):
    """P pairs of images and sentences."""

    @abstractmethod
    def firsts(self, images: Tensor, sentences: Tensor) -> tuple[Tensor, Tensor]:
        """Vectors of both sides (B, S), broadcastable to the pairs."""

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
        self.runs = list(runs(rows))

    def firsts(self, images: Tensor, sentences: Tensor) -> tuple[Tensor, Tensor]:
        """P, S and P, S."""
        return images[self.rows], sentences

    def images(self, query: Tensor, look: Look) -> Tensor:
        """P, S; an image's regions are read once for all of its sentences."""
        first, last = self.runs[0][0], self.runs[-1][0] + 1
        most = max(part.stop - part.start for _, part in self.runs)
        if (last - first) * most > 2 * len(query):
            return self._one_by_one(query, look)
        # Lists of about one length fill a grid of images x most, whose empty places are looked at in vain.
        starts = torch.zeros(last - first, dtype=torch.int64, device=query.device)
        known = torch.tensor([(row - first, part.start) for row, part in self.runs], device=query.device)
        starts[known[:, 0]] = known[:, 1]
        row = self.rows - first
        place = row * most + torch.arange(len(query), device=query.device) - starts[row]
        grid = query.new_zeros((last - first) * most, query.shape[1])
        grid[place] = query
        seen = look(grid.view(last - first, most, -1), slice(first, last))
        return seen.flatten(0, 1)[place]

    def _one_by_one(self, query: Tensor, look: Look) -> Tensor:
        seen: Tensor | None = None
        for row, part in self.runs:
            one = look(query[part][None], slice(row, row + 1))[0]
            if seen is None:
                seen = one.new_empty(len(query), one.shape[1])
            seen[part] = one  # copied at once: the next look may use the same memory
        assert seen is not None
        return seen

    def sentences(self, query: Tensor, look: Look) -> Tensor:
        """P, S."""
        return look(query[:, None], slice(None))[:, 0]
