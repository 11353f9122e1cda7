"""The instance score, beyond the paper: what the steps say is added to how well the attended instances agree.

    s = w_hs . sig(W_hh h_T + b_h) + b_s + 1/T sum_t cos(a'_t U + b_u, w'_t V + b_v)

So the Dual Attention Networks of Nam et al. 2017 score them: a short way from the score to what is attended. As
with the global score (whole.py), the term is trained by a ranking loss of its own.
"""

from collections.abc import Sequence

import torch
from torch import Tensor


def mean_agreement(cosines: Sequence[Tensor | None], like: Tensor) -> list[Tensor]:
    """The mean over steps, for every pair as in `like` (M, N). Nothing without an instance score."""
    found = [each.expand_as(like) for each in cosines if each is not None]
    return [torch.stack(found).mean(0)] if found else []
