"""Phrases as the sentence's instances, beyond the paper (`words` `phrases`): w_k is what a noun phrase says.

    w_k = mean over the words j of phrase k of w_j          q_tj = q_tk / (words of phrase k)

The paper's sentence instances are words, but what a photo shows is named by "a brown dog", not by "a" or by "brown".
Here a step attends to whole phrases, function words are in none, and holding back what had its turn (paired.py) holds
back the phrase. Projecting and attending are linear, so that pooling comes before all that depends on a pair: fewer
candidates, and otherwise nothing changes.
"""

import torch
from torch import Tensor


def pooled(words: Tensor, phrases: Tensor) -> tuple[Tensor, Tensor]:
    """Words (N, J, width) as phrases (N, K, width), and which of these are real (N, K); phrases count from 1; N, J."""
    shares = _shares(phrases, int(phrases.max()) if phrases.numel() else 0, words.dtype)
    return shares @ words, shares.any(2)


def over_words(saliency: Tensor, phrases: Tensor) -> Tensor:
    """Saliency of phrases (N, n, K) as that of their words (N, n, J), each phrase's shared evenly."""
    return saliency @ _shares(phrases, saliency.shape[2], saliency.dtype)


def _shares(phrases: Tensor, count: int, dtype: torch.dtype) -> Tensor:
    """What each word is worth in each of K phrases; N, K, J."""
    numbers = torch.arange(1, count + 1, device=phrases.device)
    of = (phrases[:, None] == numbers[:, None]).to(dtype)
    return of / of.sum(2, keepdim=True).clamp(min=1)
