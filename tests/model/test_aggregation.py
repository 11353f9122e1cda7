import numpy as np
import torch

from smlstm.model.aggregation import Aggregation, State
from tests.model import literal


def test_steps_and_score_are_those_of_the_equations():
    torch.manual_seed(0)
    aggregation = Aggregation(3, 5).double()
    weights = literal.weights_of(aggregation)
    similarities = torch.randn(4, 2, 3).double()  # step, pair, S
    state = None
    expected = [(np.zeros(5), np.zeros(5)) for _ in range(2)]
    for s in similarities:
        state = aggregation(s, state)
        expected = [literal.aggregate(weights, s[k].numpy(), *expected[k]) for k in range(2)]
        for k in range(2):
            np.testing.assert_allclose(state.hidden[k].detach(), expected[k][0], atol=1e-12)
            np.testing.assert_allclose(state.memory[k].detach(), expected[k][1], atol=1e-12)
    scores = aggregation.score(state.hidden)
    np.testing.assert_allclose(scores.detach(), [literal.final_score(weights, h) for h, _ in expected], atol=1e-12)


def test_gradients_of_a_step_and_of_the_score():
    aggregation = Aggregation(3, 4).double()

    def score(s, hidden, memory):
        return aggregation.score(aggregation(s, State(hidden, memory)).hidden)

    inputs = [torch.randn(2, width).double().requires_grad_() for width in (3, 4, 4)]
    assert torch.autograd.gradcheck(score, inputs)
