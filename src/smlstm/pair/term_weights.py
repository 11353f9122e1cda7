"""How much each term of an sm-LSTM's score counts: fitted on dev, one number a term.

    w = argmax  sum_i  log softmax_k(w . s_ik)[i]  +  log softmax_k(w . s_ki)[i]

over matched pairs i: of all images, and of all sentences, the right one is to be likely. That is `contrast` (model/
objective.py) with all dev images as mismatched ones and nothing to learn but w, which also takes the temperature's
place. It is convex, so that there is one answer. Ranks depend on the proportions of w only: the largest is made 1.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from smlstm.errors import InputError

_LEAST = 0.01  # of the largest: a term that counts for nothing could be left out, which is another model
_ROUNDS = 200


def fit_term_weights(sets: Sequence[tuple[Tensor, Tensor]]) -> tuple[float, ...]:
    """Of terms (M, N, K) of one or several dev sets, each with the image that every sentence describes (N)."""
    terms = sets[0][0].shape[2]
    # In units of each term's deviation, so that the search goes as far in all of them.
    widths = torch.stack([each.flatten(0, 1).double().std(0) for each, _ in sets]).mean(0).clamp(min=1e-6)
    weights = torch.ones(terms, dtype=torch.float64, requires_grad=True)
    search = torch.optim.LBFGS([weights], max_iter=_ROUNDS, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        search.zero_grad()
        loss = torch.stack([_loss(each, image_of, weights / widths) for each, image_of in sets]).mean()
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    search.step(closure)  # type: ignore[no-untyped-call]
    found = weights.detach() / widths
    if not found.max() > 0:
        raise InputError("no term of the score tells matches from others on dev: this model has not learned to match")
    found = (found / found.max()).clamp(min=_LEAST)
    return tuple(round(float(each), 3) for each in found)


def _loss(terms: Tensor, image_of: Tensor, weights: Tensor) -> Tensor:
    """Mean over matched pairs, both ways; another sentence of the same image is not mismatched."""
    scores = terms.double() @ weights  # M, N
    to_images = functional.cross_entropy(scores.T, image_of)
    same = image_of[None] == torch.arange(len(scores))[:, None]  # M, N
    others = scores.masked_fill(same, -torch.inf).logsumexp(1)[image_of]  # N
    own = scores[image_of, torch.arange(len(image_of))]
    return to_images + (torch.logaddexp(own, others) - own).mean()
