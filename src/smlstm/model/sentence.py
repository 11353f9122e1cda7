"""Sentence instance candidates and the sentence's global context (section 3.1).

    w_j = [forward LSTM state at word j ; backward LSTM state at word j]      j = 1..J
    n   = state of another LSTM after the last word (pooling `last`, the paper's), or the largest value of each unit
          over all words (`max`), which learns faster: every word has a short way to n; or, without an LSTM, a
          linear map of the words' mean (`mean`), for vectors that know their sentence already

The paper pads sentences with zeros to J = 50. Here padding is never seen by any unit: each LSTM runs from the
first real word to the last, the backward one over the real words in reverse, so more padding changes nothing.
"""

import torch
from torch import Tensor, nn

from smlstm.matching.batch import Tokens
from smlstm.model.config import Pooling
from smlstm.text import PADDING


class WordEmbedding(nn.Embedding):
    """One vector a word; padding is the zero vector and stays so."""

    def __init__(self, words: int, width: int) -> None:
        super().__init__(words, width, padding_idx=PADDING)
        # Smaller vectors leave an LSTM's first states alike for all words, and learning starts late.
        nn.init.uniform_(self.weight, -1.0, 1.0)
        with torch.no_grad():
            self.weight[PADDING] = 0

    def forward(self, tokens: Tokens) -> Tensor:  # type: ignore[override]
        """Word vectors; N, J, width."""
        return super().forward(tokens.ids)


class SentenceContext(nn.Module):
    """n: what is said of the whole sentence, as a rule by an LSTM that reads it."""

    def __init__(self, embedding_width: int, sentence_width: int, pooling: Pooling = "last") -> None:
        super().__init__()
        self.lstm = None if pooling == "mean" else nn.LSTM(embedding_width, sentence_width, batch_first=True)
        self.linear = nn.Linear(embedding_width, sentence_width) if pooling == "mean" else None
        self.pooling = pooling

    def forward(self, vectors: Tensor, tokens: Tokens) -> Tensor:
        """Word vectors (N, J, embedding) to contexts (N, E)."""
        if self.linear is not None:
            words = vectors.masked_fill(~tokens.mask[:, :, None], 0.0)
            mean: Tensor = self.linear(words.sum(1) / tokens.lengths[:, None])
            return mean
        assert self.lstm is not None
        states: Tensor = self.lstm(vectors)[0]  # N, J, E; a state knows nothing of the padding behind it
        if self.pooling == "max":
            return states.masked_fill(~tokens.mask[:, :, None], -1.0).amax(1)  # no state is below -1
        last = (tokens.lengths - 1)[:, None, None].expand(-1, 1, states.shape[2])
        return states.gather(1, last).squeeze(1)


class SentenceWords(nn.Module):
    """w_j: the states of a bidirectional LSTM at each word, both directions side by side."""

    def __init__(self, embedding_width: int, word_width: int) -> None:
        super().__init__()
        self.forwards = nn.LSTM(embedding_width, word_width // 2, batch_first=True)
        self.backwards = nn.LSTM(embedding_width, word_width // 2, batch_first=True)

    def forward(self, vectors: Tensor, tokens: Tokens) -> Tensor:
        """Word vectors (N, J, embedding) to words (N, J, G), zero on padding."""
        ahead, _ = self.forwards(vectors)
        back, _ = self.backwards(reverse_words(vectors, tokens))
        words = torch.cat([ahead, reverse_words(back, tokens)], dim=2)
        return words.masked_fill(~tokens.mask[:, :, None], 0.0)


def reverse_words(vectors: Tensor, tokens: Tokens) -> Tensor:
    """Reverse the real words of each sentence; padding stays behind them. N, J, width."""
    place = torch.arange(vectors.shape[1], device=vectors.device)
    mirrored = tokens.lengths[:, None] - 1 - place  # N, J; negative on padding
    index = torch.where(mirrored >= 0, mirrored, place)
    return vectors.gather(1, index[:, :, None].expand_as(vectors))
