"""What each term of an sm-LSTM's score ranks by itself: whether attention pays beside the whole image and sentence.

A score is a weighted sum, and each term was trained by a loss of its own (model/whole.py): the model that counts one
term alone is the same model with other weights.
"""

from collections.abc import Callable

import numpy as np

from smlstm.errors import InputError
from smlstm.evaluation.matrices import Scores
from smlstm.matching.matcher import Matcher
from smlstm.model import SMLSTM

STEPS, INSTANCES, GLOBAL, ATTENDED = "steps", "instances", "global", "steps and instances"


def with_terms(name: str, matcher: Matcher) -> SMLSTM:
    """A model whose score has several terms; any other is refused."""
    if not isinstance(matcher, SMLSTM) or matcher.config.terms < 2:
        raise InputError(
            f"{name} has a score of one term ({matcher.kind}): --terms is for an sm-lstm with global_score or "
            "instance_score"
        )
    return matcher


def score_terms(name: str, matcher: SMLSTM, score: Callable[[str, Matcher], Scores]) -> dict[str, Scores]:
    """A model's matrix by its name, then those of its terms; `score` makes the matrix of a model, by a name."""
    alone = {part: score(f"{name}: {part}", matcher.weighing(weights)) for part, weights in _parts(matcher).items()}
    whole: Scores = np.sum(list(alone.values()), axis=0)
    found = {name: whole, **{f"{name}: {part}": scores for part, scores in alone.items()}}
    if INSTANCES in alone and GLOBAL in alone:
        found[f"{name}: {ATTENDED}"] = alone[STEPS] + alone[INSTANCES]
    return found


def _parts(matcher: SMLSTM) -> dict[str, list[float]]:
    """Weights that leave one kind of term, each as it counts in the whole."""
    config, weights = matcher.config, matcher.term_weights
    kinds = [STEPS, *[GLOBAL] * config.readers, *[INSTANCES] * config.instance_score]
    return {
        wanted: [weight * (kind == wanted) for kind, weight in zip(kinds, weights, strict=True)]
        for wanted in dict.fromkeys(kinds)
    }
