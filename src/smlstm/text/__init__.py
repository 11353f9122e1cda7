"""Sentences in: tokens and the vocabulary."""

from smlstm.text.tokens import tokenise
from smlstm.text.vocabulary import PADDING, UNKNOWN, EncodedText, Vocabulary

__all__ = ["PADDING", "UNKNOWN", "EncodedText", "Vocabulary", "tokenise"]
