"""MNLM (Kiros et al. 2014), the paper's baseline, from which an sm-LSTM starts (training/transfer.py).

    x = (m W_I + b) / |m W_I + b|       v = n / |n|,  n from an LSTM as a rule       s = x . v

Trained with the same ranking loss.
"""

from dataclasses import dataclass
from typing import ClassVar, cast

from torch import Tensor, nn
from torch.nn import functional

from smlstm.matching.batch import Batch, ImageFeatures, Tokens
from smlstm.matching.matcher import Matcher
from smlstm.model.config import MNLMConfig
from smlstm.model.image import scaled
from smlstm.model.readers import word_vectors
from smlstm.model.sentence import SentenceContext
from smlstm.text import Vocabulary


@dataclass(frozen=True)
class Embedded(Batch):
    """Unit vectors in the joint space."""

    vectors: Tensor  # B, E


class MNLM(Matcher):
    """Linear image embedding, LSTM sentence embedding, cosine; dropout falls on m and on the word vectors."""

    kind: ClassVar[str] = "mnlm"
    config_type = MNLMConfig
    config: MNLMConfig

    def __init__(self, config: MNLMConfig, vocabulary: Vocabulary) -> None:
        super().__init__(config, vocabulary)
        self.embedding, width = word_vectors(config, len(vocabulary), config.embedding_width)
        self.dropout = nn.Dropout(config.dropout)
        self.sentence_context = SentenceContext(width, config.sentence_width, config.sentence_pooling)
        self.image = nn.Linear(config.context_width, config.sentence_width)  # W_I

    def _encode_images(self, features: ImageFeatures) -> Embedded:
        context = scaled(features.context)
        return Embedded(functional.normalize(self.image(self.dropout(context)), dim=1))

    def _encode_tokens(self, tokens: Tokens) -> Embedded:
        vectors = self.dropout(self.embedding(tokens))
        return Embedded(functional.normalize(self.sentence_context(vectors, tokens), dim=1))

    def score(self, images: Batch, sentences: Batch) -> Tensor:
        """Cosines of all pairs; M, N."""
        return cast(Embedded, images).vectors @ cast(Embedded, sentences).vectors.T
