"""OEM: order embeddings of images and language (Vendrov, Kiros, Fidler and Urtasun, ICLR 2016).

    f_i = |W_i m / ||W_i m|||        f_c = |g / ||g|||,  g the last state of a GRU over the words
    S(c, i) = -E(f_i, f_c) = -||max(0, f_c - f_i)||^2

In the order x <= y if and only if x_k >= y_k for every k, a caption lies above the images that it describes: it
says less. Only coordinates where the caption exceeds the image cost, so the score is not symmetric.

Trained with the sum over all mismatched pairs, margin 0.05. Departures: none in the equations; the paper's
images are averages over ten crops, ours are whatever context m the backbone gives, scaled as for all matchers.
"""

from typing import ClassVar, cast

from torch import Tensor, nn
from torch.nn import functional

from smlstm.baselines.config import BaselineConfig
from smlstm.baselines.slices import score_slices
from smlstm.matching.batch import Batch, ImageFeatures, Tokens
from smlstm.matching.matcher import Matcher
from smlstm.model.config import ObjectiveConfig
from smlstm.model.image import scaled
from smlstm.model.mnlm import Embedded
from smlstm.model.readers import word_vectors
from smlstm.text import Vocabulary


class OEMConfig(BaselineConfig):
    """Order embeddings; the paper has 300 wide word vectors and E = 1024."""


class OEM(Matcher):
    """Linear image embedding, GRU sentence embedding, violation of the order between them."""

    kind: ClassVar[str] = "oem"
    config_type = OEMConfig
    config: OEMConfig

    def __init__(self, config: OEMConfig, vocabulary: Vocabulary) -> None:
        super().__init__(config, vocabulary)
        self.embedding, vector_width = word_vectors(config, len(vocabulary), config.embedding_width)
        self.dropout = nn.Dropout(config.dropout)
        self.gru = nn.GRU(vector_width, config.sentence_width, batch_first=True)
        self.image = nn.Linear(config.context_width, config.sentence_width, bias=False)  # W_i

    @staticmethod
    def objective() -> ObjectiveConfig:
        """The paper's: all mismatched pairs of the batch, margin 0.05."""
        return ObjectiveConfig(form="sum", margin=0.05, negatives=None, regulariser=0.0)

    def _encode_images(self, features: ImageFeatures) -> Embedded:
        context = scaled(features.context)
        return Embedded(functional.normalize(self.image(context), dim=1).abs())

    def _encode_tokens(self, tokens: Tokens) -> Embedded:
        states, _ = self.gru(self.dropout(self.embedding(tokens)))  # N, J, E
        last = (tokens.lengths - 1)[:, None, None].expand(-1, 1, states.shape[2])
        return Embedded(functional.normalize(states.gather(1, last).squeeze(1), dim=1).abs())

    def score(self, images: Batch, sentences: Batch) -> Tensor:
        """How little each sentence says that its image does not show, at most 0; M, N."""
        width = self.config.sentence_width
        return score_slices(_order, cast(Embedded, images), cast(Embedded, sentences), pair_size=width, recompute=True)


def _order(images: Embedded, sentences: Embedded) -> Tensor:
    excess = (sentences.vectors - images.vectors[:, None]).clamp(min=0)  # m, n, E
    return -excess.square().sum(2)
