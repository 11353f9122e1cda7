"""Other ways to read a sentence than the paper's, which learns one vector a word and has LSTMs read them.

`language_model`          word vectors are those of a frozen language model that has read the whole sentence
`own_pieces`              beside it what the word is by itself: what the language model makes of a word knows the rest
                          of the sentence, and a map that is sought by it lies between all things named there
`words` `vectors`         w_j is the word's vector itself: enough where a language model made it; `phrases`: phrases.py
`context_words` `both`    two readers: the language model's vectors make the words, learned ones make n; the global
                          score also compares a linear map of the mean of the language model's (whole.py)
"""

import torch
from torch import Tensor, nn

from smlstm.matching.batch import Tokens
from smlstm.matching.matcher import MatcherConfig
from smlstm.model.config import SMLSTMConfig
from smlstm.model.sentence import SentenceContext, SentenceWords, WordEmbedding


class ReadWords(nn.Module):
    """What a language model made of each word, brought to one size; a word that was dropped is the zero vector.

    Of two parts, as it is read and its own pieces, each is brought to that size.
    """

    def __init__(self, parts: int = 1) -> None:
        super().__init__()
        self.parts = parts

    def forward(self, tokens: Tokens) -> Tensor:
        """Word vectors; N, J, width."""
        assert tokens.vectors is not None
        count, words, width = tokens.vectors.shape
        parts = tokens.vectors.view(count, words, self.parts, width // self.parts)
        return (parts * torch.rsqrt(parts.square().mean(3, keepdim=True) + 1e-6)).flatten(2)


class PlainWords(nn.Module):
    """w_j: the word vectors themselves."""

    def forward(self, vectors: Tensor, tokens: Tokens) -> Tensor:
        """Word vectors (N, J, G), zero on padding."""
        return vectors.masked_fill(~tokens.mask[:, :, None], 0.0)


def word_vectors(config: MatcherConfig, words: int, embedding_width: int) -> tuple[nn.Module, int]:
    """Where a matcher's word vectors come from, and how wide they are."""
    if config.language_model:
        return ReadWords(2 if config.own_pieces else 1), config.read_width
    return WordEmbedding(words, embedding_width), embedding_width


def sentence_words(config: SMLSTMConfig, vector_width: int) -> SentenceWords | PlainWords | None:
    """What makes w_j; None for the variant `ctx`, which has none."""
    if config.variant == "ctx":
        return None
    return SentenceWords(vector_width, config.word_width) if config.words == "blstm" else PlainWords()


def sentence_contexts(
    config: SMLSTMConfig, words: int, vector_width: int
) -> tuple[WordEmbedding | None, SentenceContext | None, SentenceContext | None]:
    """What makes n (None if nothing needs it), between its own word vectors and the other reader, if there are two."""
    if config.context_words == "both":
        embedding = WordEmbedding(words, config.embedding_width)
        context = SentenceContext(config.embedding_width, config.sentence_width, config.sentence_pooling)
        return embedding, context, SentenceContext(vector_width, config.sentence_width, "mean")
    if config.variant in ("ctx", "full") or config.global_score:
        return None, SentenceContext(vector_width, config.sentence_width, config.sentence_pooling), None
    return None, None, None
