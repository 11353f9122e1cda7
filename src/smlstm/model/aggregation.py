"""Aggregating local similarities into one score (section 3.4).

    i_t = sig(W_si s_t + W_hi h_{t-1} + b_i)
    f_t = sig(W_sf s_t + W_hf h_{t-1} + b_f)
    c_t = f_t * c_{t-1} + i_t * tanh(W_sc s_t + W_hc h_{t-1} + b_c)
    o_t = sig(W_so s_t + W_ho h_{t-1} + b_o)
    h_t = o_t * tanh(c_t)

    s = w_hs . sig(W_hh h_T + b_h) + b_s

h_0 and c_0 are 0 (open in the paper).
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class State:
    """What the LSTM carries from step to step, for every pair."""

    hidden: Tensor  # ..., H
    memory: Tensor  # ..., H


class Aggregation(nn.Module):
    """The multimodal LSTM and the scoring MLP."""

    def __init__(self, similarity_width: int, hidden_width: int) -> None:
        super().__init__()
        # The four gates side by side, in the order i, f, c, o.
        self.similarity = nn.Linear(similarity_width, 4 * hidden_width)  # W_s., b_.
        self.hidden = nn.Linear(hidden_width, 4 * hidden_width, bias=False)  # W_h.
        self.unit = nn.Linear(hidden_width, hidden_width)  # W_hh, b_h
        self.output = nn.Linear(hidden_width, 1)  # w_hs, b_s
        with torch.no_grad():
            # An open forget gate at the start lets the first steps' similarities reach the score.
            self.similarity.bias[hidden_width : 2 * hidden_width] = 1.0

    def forward(self, similarity: Tensor, state: State | None) -> State:
        """One step; similarity is ..., S; no state means h_0 = c_0 = 0."""
        gates = self.similarity(similarity)
        if state is not None:
            gates = gates + self.hidden(state.hidden)
        i, f, c, o = gates.chunk(4, dim=-1)
        memory = torch.sigmoid(i) * torch.tanh(c)
        if state is not None:
            memory = memory + torch.sigmoid(f) * state.memory
        return State(torch.sigmoid(o) * torch.tanh(memory), memory)

    def score(self, hidden: Tensor) -> Tensor:
        """The matching score s; ..., H -> ... ."""
        score: Tensor = self.output(torch.sigmoid(self.unit(hidden)))
        return score.squeeze(-1)
