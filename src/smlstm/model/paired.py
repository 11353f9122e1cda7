"""The modulation `paired`: what the sentence attends to is what the image is searched for, at the same step.

The paper wants "a pair of instances describing the same semantic concept", but in its equations the image's map hears
of the sentence only through h, and at the first step not at all. Here the sentence attends first, and

    f_ti = (u_p * tanh(m W_m + h_{t-1} W_h + b_h)) . sig(a_i W_a + b_a) + b_p + g (a~_i U + b_u) . unit(w'_t V + b_v)
    u_p  = 0.2 w_p / sum |w_p|

The first term is `gated`'s: m says where something is, h what was seen before. u_p bounds it to 0.2 either way: photos
and captions alone teach it to look at what tells one photo from another, whatever is sought. Left free it cost 6 points
of pointing in trials, bounded by 1 still 3 (docs/experiments.md). The second is what is sought, the words that are
attended to at this very step, in the space where instances are compared (comparison.py): what is looked for and what
is compared cannot drift apart. a~_i is a region with its neighbours on the grid, by a learned kernel of 3 x 3 that sums
to 1, nothing beyond the edges: one region alone sees too little of a thing to tell its place. Regions that are no
square grid have no neighbours.

A step names one thing, and words that were attended to at earlier steps are held back, so that steps name different
things:

    f_tj = 8 gated's - c sum_{s<t} q_sj

Without the 8 a step's attention lay on three phrases at a time, and its map between them: 58 instead of 64 % of phrases
were pointed at within their captions (docs/experiments.md).

a~_i U does not depend on the pair, and attending is linear: all pairs stay matrix products.
"""

import math
from functools import cache

import torch
from torch import Tensor, nn
from torch.nn import functional

_SMALLEST = 1e-6
BOUND = 0.2
"""Of what context and history may add to a region's logit, either way."""
SHARPNESS = 8.0
"""Of the words' logits."""


class Search(nn.Module):
    """How the image is searched, and how strongly words are held back that had their turn."""

    def __init__(self) -> None:
        super().__init__()
        self.kernel = nn.Parameter(torch.zeros(9))
        self.gain = nn.Parameter(torch.tensor(0.5))  # g
        self.held = nn.Parameter(torch.tensor(100.0))  # c

    def offered(self, candidates: Tensor) -> Tensor:
        """g (a~_i U + b_u) of regions that are projected for the comparison, or the same of their products; M, I, S."""
        return self.gain * self._with_neighbours(candidates)

    def hold(self, logits: Tensor, covered: Tensor | None) -> Tensor:
        """Logits of words less what those have had already; N, n, J."""
        return logits if covered is None else logits - self.held * covered

    def _with_neighbours(self, regions: Tensor) -> Tensor:
        side = math.isqrt(regions.shape[1])
        if side * side != regions.shape[1] or side < 2:
            return regions
        mixing = torch.softmax(self.kernel, 0) @ _neighbours(side).to(regions.device, regions.dtype).flatten(1)
        return mixing.view(side * side, side * side) @ regions


@cache
def _neighbours(side: int) -> Tensor:
    """For each place of the kernel, which region it finds beside each; beyond an edge there is none. 9, I, I."""
    rows, columns = torch.meshgrid(torch.arange(side), torch.arange(side), indexing="ij")
    found = []
    for down in (-1, 0, 1):
        for across in (-1, 0, 1):
            y, x = rows + down, columns + across
            there = (y >= 0) & (y < side) & (x >= 0) & (x < side)
            near = (y * side + x).where(there, torch.tensor(0))
            found.append(functional.one_hot(near.flatten(), side * side) * there.view(-1, 1))
    return torch.stack(found)


def direction(said: Tensor) -> Tensor:
    """unit(w'_t V + b_v); ..., S."""
    length: Tensor = torch.linalg.vector_norm(said, dim=-1, keepdim=True)
    return said / length.clamp(min=_SMALLEST)
