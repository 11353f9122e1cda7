"""Context-modulated attention (sections 3.2 and 3.3), for image regions and, alike, for words.

As printed, for regions (words: n, w_j, q in place of m, a_i, p):

    p_ti = exp(f_ti) / sum_k exp(f_tk)
    f_ti = w_p . (sig(m W_m + b_m) + sig(a_i W_a + b_a) + sig(h_{t-1} W_h + b_h)) + b_p

Four modulations:

`separate`  the print. The terms of m and h do not depend on i, and a softmax over i ignores what is constant
            in i: the map is the same at every step and for every sentence. Kept to show exactly that.
`joint`     f_ti = w_p . sig(m W_m + a_i W_a + h_{t-1} W_h + b) + b_p
            the additive attention of Bahdanau and Xu, which the paper builds on.
`gated`     f_ti = (w_p * tanh(m W_m + h_{t-1} W_h + b_h)) . sig(a_i W_a + b_a) + b_p
            context and history choose the direction in which a region's key is read. Keys do not depend on the
            pair, so the logits of all pairs are one matrix product.
`paired`    `gated`, and the image is searched for what the sentence attends to at the same step: see paired.py.

Without global context (the variant `att`) the term of m is absent.

Padding never takes part: its logit is minus infinity, its saliency exactly 0.
"""

from typing import Literal

import torch
from torch import Tensor, nn

from smlstm.model.joint import joint_logits


class ContextModulatedAttention(nn.Module):
    """f_p or f_q: logits of the candidates of one side, given its global context and the state so far.

    Work that one side alone decides is done once, in `keys` and `reference`; `logits` is what depends on a pair.
    """

    def __init__(
        self,
        candidate_width: int,
        context_width: int | None,
        hidden_width: int,
        attention_width: int,
        modulation: Literal["separate", "joint", "gated", "paired"],
        *,
        bound: float | None = None,
        sharpness: float = 1.0,
    ) -> None:
        super().__init__()
        self.modulation, self.bound, self.sharpness = modulation, bound, sharpness
        self.candidate = nn.Linear(candidate_width, attention_width)  # W_a, b_a
        # One bias is enough where the terms are added before the non-linearity.
        own_bias = modulation == "separate"
        self.context = (
            nn.Linear(context_width, attention_width, bias=own_bias) if context_width is not None else None
        )  # W_m, b_m
        self.hidden = nn.Linear(hidden_width, attention_width, bias=modulation != "joint")  # W_h, b_h
        self.output = nn.Linear(attention_width, 1)  # w_p, b_p
        # The default start (1 / sqrt(units)) leaves logits so small that every map is flat.
        nn.init.uniform_(self.output.weight, -1.0, 1.0)

    @property
    def weight(self) -> Tensor:
        """w_p, or what stands in its place where the logit is bounded or sharpened; A."""
        weight = self.output.weight[0]
        return self.sharpness * weight if self.bound is None else self.bound * weight / weight.abs().sum()

    def keys(self, candidates: Tensor) -> Tensor:
        """The candidates' own term; B, C, candidate width -> B, C, A."""
        term: Tensor = self.candidate(candidates)
        return term if self.modulation == "joint" else torch.sigmoid(term)

    def reference(self, context: Tensor) -> Tensor | None:
        """The global context's term; B, context width -> B, A. None for attention without context."""
        if self.context is None:
            return None
        term: Tensor = self.context(context)
        return torch.sigmoid(term) if self.modulation == "separate" else term

    def logits(self, keys: Tensor, reference: Tensor | None, hidden: Tensor | None) -> Tensor:
        """f for every candidate of every pair; hidden is B, n, H, or None for h_0 = 0; returns B, n, C."""
        query = self._hidden_term(hidden, keys)  # B, n, A
        if reference is not None:
            query = query + reference[:, None]
        weight = self.weight
        if self.modulation == "separate":
            own = keys @ weight  # B, C
            return own[:, None] + (query @ weight)[:, :, None] + self.output.bias
        if self.modulation == "joint":
            return joint_logits(keys, query, weight) + self.output.bias
        return torch.tanh(query) @ (weight * keys).transpose(1, 2) + self.output.bias  # there are fewer keys than pairs

    def _hidden_term(self, hidden: Tensor | None, keys: Tensor) -> Tensor:
        if hidden is None:  # h_0 W_h = 0: what remains is the same for all pairs, so one row is enough
            bias: Tensor | None = self.hidden.bias
            row = keys.new_zeros(keys.shape[-1]) if bias is None else bias
            term = row.expand(len(keys), 1, -1)
        else:
            term = self.hidden(hidden)
        return torch.sigmoid(term) if self.modulation == "separate" else term


def saliency(logits: Tensor, mask: Tensor | None) -> Tensor:
    """p_t or q_t: softmax over the real candidates; logits B, n, C; mask B, C, True where real."""
    if mask is not None:
        logits = logits.masked_fill(~mask[:, None], -torch.inf)
    return torch.softmax(logits, dim=-1)
