"""Attended instances and their local similarity (section 3.4).

    a'_t = sum_i p_ti a_i        w'_t = sum_j q_tj w_j
    s_t  = two-way MLP (a'_t, w'_t)

The paper does not spell out the two-way MLP. Two forms:

`additive`  s_t = sig(a'_t U + w'_t V + b)
            the two ways are added, as in the paper's three-way MLP of attention. Nothing in it measures
            agreement: the LSTM behind it must learn to. It trains slowly or not at all from a random start.
`product`   s_t = tanh((a'_t U + b_u) * (w'_t V + b_v))
            both instances in one space, multiplied unit by unit: a unit is large where they agree, as in a
            cosine. This is what makes the model learn.

A saliency map sums to 1, so projecting an attended instance and attending to projected candidates are the same:
(sum_i p_ti a_i) U + b = sum_i p_ti (a_i U + b). Candidates are projected once an image or sentence, not
once a pair.
"""

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

_SMALLEST = 1e-6


class Comparison(nn.Module):
    """s_t: the local similarity of an attended region and an attended phrase."""

    def __init__(
        self,
        image_width: int,
        sentence_width: int,
        similarity_width: int,
        form: Literal["additive", "product"],
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.form = form
        self.image = nn.Linear(image_width, similarity_width)  # U, b_u
        self.sentence = nn.Linear(sentence_width, similarity_width)  # V, b_v
        self.dropout = dropout

    def forward(self, image: Tensor, sentence: Tensor) -> Tensor:
        """Compare projected instances, broadcasting over pairs; M, N or 1, S and M or 1, N, S -> M, N, S."""
        additive = self.form == "additive"
        similarity: Tensor = torch.sigmoid(image + sentence) if additive else torch.tanh(image * sentence)
        if not self.training or not self.dropout:
            return similarity
        # A sentence meets all images of a batch with the same units missing: fair to them, and few numbers to draw.
        return similarity * functional.dropout(similarity.new_ones(1, *similarity.shape[1:]), self.dropout)


def attended(saliency: Tensor, candidates: Tensor) -> Tensor:
    """a'_t or w'_t: candidates weighted by their saliency; B, n, C and B, C, width -> B, n, width."""
    return saliency @ candidates


def cosines(first: Tensor, second: Tensor) -> Tensor:
    """Of two that broadcast to the pairs; M, N or 1, S and M or 1, N, S -> M, N."""
    if first.shape[1] == 1 and second.shape[0] == 1:
        return functional.normalize(first[:, 0], dim=1) @ functional.normalize(second[0], dim=1).T
    both = torch.linalg.vector_norm(first, dim=2) * torch.linalg.vector_norm(second, dim=2)
    found: Tensor = (first * second).sum(2) / both.clamp(min=_SMALLEST)
    return found


def lengths(saliency: Tensor, candidates: Tensor) -> Tensor:
    """Of attended instances, which are not made for it: of the candidates' products with each other; B, n.

    Candidates are fewer than numbers in an instance.
    """
    products = candidates @ candidates.transpose(1, 2)  # B, C, C
    wide = torch.promote_types(saliency.dtype, torch.float32)
    return ((saliency @ products) * saliency).sum(2, dtype=wide).clamp(min=_SMALLEST**2).sqrt()


def found_cosines(saliency: Tensor, alike: Tensor, regions: Tensor) -> Tensor:
    """`cosines` of what is seen by maps (M, N, I) and unit vectors whose products with regions are known; M, N.

    Regions that cancel out leave a length of rounding errors: no cosine is beyond 1 for that.
    """
    along: Tensor = (saliency * alike.transpose(1, 2)).sum(2, dtype=torch.promote_types(alike.dtype, torch.float32))
    return (along / lengths(saliency, regions)).clamp(-1, 1)
