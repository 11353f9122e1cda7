"""What is looked for: sentences that should fit, sentences that should not, each with a weight.

    log P = sum_i w_i log p_i + sum_j w_j log (1 - p_j)

p_i are the match probabilities of what should fit, p_j of what should not. With one sentence of weight 1, P is its
match probability. A photo that has nothing of what should not fit loses nothing by it.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from smlstm.errors import InputError
from smlstm.text import tokenise

_WEIGHTED = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*:(.*)", re.DOTALL)


@dataclass(frozen=True)
class Term:
    """A sentence; a negative weight asks for photos that it does not fit."""

    sentence: str
    weight: float = 1.0


def parse_term(text: str, sign: int = 1) -> Term:
    """Read a sentence, or `WEIGHT:sentence` such as "0.5:at sunset"."""
    weight, sentence = split_term(text)
    if not tokenise(sentence):
        raise InputError(f'{text!r} has no words to look for: describe the photo, such as "a dog on a beach"')
    if not 0 < weight <= 100:
        raise InputError(f"the weight of {text!r} must be above 0 and at most 100")
    return Term(sentence, sign * weight)


def split_term(text: str) -> tuple[float, str]:
    """The weight and the sentence of a term as it was typed."""
    found = _WEIGHTED.fullmatch(text)
    return (float(found[1]), found[2].strip()) if found else (1.0, text)


def log_probability(terms: Sequence[Term], odds: Tensor) -> Tensor:
    """log P of M photos, from the log-odds of a match with each of N terms; M, N -> M."""
    weights = torch.tensor([term.weight for term in terms], dtype=odds.dtype)
    signed = odds * weights.sign()  # log (1 - sig(x)) = log sig(-x)
    return functional.logsigmoid(signed) @ weights.abs()


def direction(terms: Sequence[Term], vectors: Tensor) -> Tensor:
    """Where to look in the shortlist's space: the weighted sum of the terms' unit vectors, of length 1; E."""
    weights = torch.tensor([term.weight for term in terms], dtype=vectors.dtype)
    return functional.normalize(weights @ vectors, dim=0)
