"""The structured objective (section 3.5).

    sum_ik  max(0, m - s_ii + s_ik) + max(0, m - s_ii + s_ki)

over 100 mismatched pairs for each matched pair. Another caption of the same image is not mismatched. `sum` adds
all mismatched pairs up, `hardest` (VSE++) keeps the worst each way, and `contrast` is a softmax over the matched
pair and its mismatched ones with a temperature in place of the margin,

    sum_i  log(1 + sum_k exp((s_ik - s_ii) / temperature)) + log(1 + sum_k exp((s_ki - s_ii) / temperature)),

in which a mismatched pair counts by how wrong it is instead of all alike. The sum is divided by the number of
matched pairs, so that a learning rate means the same for every batch size; a model that gives all pairs the
same score has the loss `collapse_loss`: 2 m x (mismatched pairs a matched pair) for `sum`.

The pairwise doubly stochastic regulariser is printed without a square,

    lambda (sum_i (1 - sum_t p_ti) + sum_j (1 - sum_t q_tj)),

which is the constant lambda (I + J - 2T) with no gradient, since each map sums to 1. Xu et al. (2015), where it
comes from, square each bracket, and so do we. Each of the two sums is divided by its number of real candidates (I, or
the sentence's words), so that lambda does not depend on the grid.
"""

import math

import torch
from torch import Tensor
from torch.nn import functional

from smlstm.matching.batch import Saliency
from smlstm.model.config import ObjectiveConfig


def ranking_loss(
    scores: Tensor,
    row_images: Tensor,
    column_images: Tensor,
    config: ObjectiveConfig,
    generator: torch.Generator | None = None,
) -> Tensor:
    """The bidirectional ranking loss of a grid of scores (M, N), a mean over its matched pairs.

    `row_images` (M) says which image each row is, `column_images` (N) which image each caption describes.
    Where more mismatched pairs are there than `config.negatives`, that many are drawn with `generator`.
    """
    matched = row_images[:, None] == column_images[None, :]  # M, N
    rows, columns = matched.nonzero(as_tuple=True)  # P
    if len(rows) == 0:
        raise ValueError("no row and column belong together: the ranking loss needs a matched pair")
    right = scores[rows, columns][:, None]  # P, 1
    total = _mismatched(scores[rows] - right, ~matched[rows], config, generator)  # P, N: this image, other sentences
    total = total + _mismatched(scores.T[columns] - right, ~matched.T[columns], config, generator)  # P, M: the reverse
    return total.mean()


def _mismatched(
    excess: Tensor, mismatched: Tensor, config: ObjectiveConfig, generator: torch.Generator | None
) -> Tensor:
    """The cost of (chosen) mismatched pairs by how much they exceed the matched one; P, K -> P."""
    if config.negatives is not None and config.negatives < excess.shape[1]:
        mismatched = draw(mismatched, config.negatives, generator)
    if config.form == "contrast":
        logits = (excess / config.temperature).masked_fill(~mismatched, -torch.inf)
        return torch.logsumexp(functional.pad(logits, (0, 1)), dim=1)  # the matched pair's own 0 at the end
    cost = (config.margin + excess).clamp(min=0) * mismatched
    return cost.sum(1) if config.form == "sum" else cost.amax(1)


def draw(mismatched: Tensor, count: int, generator: torch.Generator | None = None) -> Tensor:
    """Keep at most `count` of each row's True places, uniformly; the same shape."""
    draws = torch.rand(mismatched.shape, generator=generator).to(mismatched.device)
    draws = draws.masked_fill(~mismatched, -1.0)
    chosen = torch.zeros_like(mismatched)
    return chosen.scatter(1, draws.topk(count, dim=1).indices, True) & mismatched


def collapse_loss(config: ObjectiveConfig, mismatched: int) -> float:
    """The loss of a model that scores all pairs alike, with so many mismatched pairs each way at hand."""
    used = mismatched if config.negatives is None else min(mismatched, config.negatives)
    if config.form == "contrast":
        return 2 * math.log1p(used)
    return 2 * config.margin * (used if config.form == "sum" else 1)


def doubly_stochastic(saliency: Tensor, mask: Tensor | None) -> Tensor:
    """The regulariser of one side without lambda: P, T, C -> a mean over the P pairs; padding is left out."""
    missed = (1 - saliency.sum(1)).square()  # P, C
    if mask is not None:
        if mask.shape != missed.shape:
            raise ValueError(f"a mask of {tuple(mask.shape)} does not fit maps of {tuple(missed.shape)}")
        missed = missed * mask
    real = missed.shape[1] if mask is None else mask.sum(1)
    return (missed.sum(1) / real).mean()


def regulariser(saliency: Saliency, words: Tensor, config: ObjectiveConfig) -> Tensor:
    """lambda times the regulariser of both sides, for matched pairs; words (P, J) is True on real words."""
    image = doubly_stochastic(saliency.image, None)
    return config.regulariser * (image + doubly_stochastic(saliency.sentence, words))
