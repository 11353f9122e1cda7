"""SCAN, text to image: stacked cross attention (Lee, Chen, Hua, Hu and He, ECCV 2018).

    v_i = W_v a_i + b_v                 e_j = (forward GRU state + backward GRU state) / 2
    s_ij = cos(v_i, e_j)                s'_ij = [s_ij]_+ / sqrt(sum_j [s_ij]_+^2)
    alpha_ij = softmax over regions i of lambda_1 s'_ij
    a_j = sum_i alpha_ij v_i            R_j = cos(e_j, a_j)
    S = mean of R_j over words                               `average`, the paper's AVG
    S = log(sum over words of exp(lambda_2 R_j)) / lambda_2  `logsumexp`, its LSE

As in print where the authors' code differs: it clips with a leak (LeakyReLU 0.1) and scales each v_i to unit
length before a_j is summed. Trained with the hardest mismatched pairs, margin 0.2. Departure: regions are
the backbone's grid where the paper has 36 detected ones.

No a_j is ever built for a pair: with K = v v' of an image, e_j . a_j = sum_i alpha_ij |v_i| s_ij |e_j| and
|a_j|^2 = alpha_j' K alpha_j need words x regions, not words x E.
"""

from typing import ClassVar, Literal, cast

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from smlstm.baselines.alignment import Regions, Words, inner_products, word_saliency
from smlstm.baselines.config import BaselineConfig
from smlstm.baselines.slices import score_slices
from smlstm.matching.batch import Batch, ImageFeatures, Saliency, Tokens
from smlstm.matching.matcher import Matcher
from smlstm.model.config import ObjectiveConfig
from smlstm.model.image import scaled
from smlstm.model.readers import word_vectors
from smlstm.model.sentence import reverse_words
from smlstm.text import Vocabulary

_SMALLEST = 1e-12


class SCANConfig(BaselineConfig):
    """SCAN, text to image; the paper has 300 wide word vectors and E = 1024."""

    pooling: Literal["average", "logsumexp"] = Field(
        default="average", description="how the words' relevances become one score"
    )
    attention_scale: float = Field(default=9.0, gt=0, description="lambda_1, inverse temperature of the softmax")
    pooling_scale: float = Field(default=6.0, gt=0, description="lambda_2, of `logsumexp` alone")


class SCAN(Matcher):
    """Linear regions, bidirectional GRU words, each word compared with the image as that word sees it."""

    kind: ClassVar[str] = "scan"
    config_type = SCANConfig
    config: SCANConfig
    attends: ClassVar[bool] = True

    def __init__(self, config: SCANConfig, vocabulary: Vocabulary) -> None:
        super().__init__(config, vocabulary)
        self.embedding, vector_width = word_vectors(config, len(vocabulary), config.embedding_width)
        self.dropout = nn.Dropout(config.dropout)
        self.forwards = nn.GRU(vector_width, config.sentence_width, batch_first=True)
        self.backwards = nn.GRU(vector_width, config.sentence_width, batch_first=True)
        self.region = nn.Linear(config.region_width, config.sentence_width)  # W_v

    @staticmethod
    def objective() -> ObjectiveConfig:
        """The paper's: the hardest mismatched pair of the batch each way, margin 0.2."""
        return ObjectiveConfig(form="hardest", margin=0.2, negatives=None, regulariser=0.0)

    def _encode_images(self, features: ImageFeatures) -> Regions:
        return Regions(self.region(scaled(features.regions)))

    def _encode_tokens(self, tokens: Tokens) -> Words:
        """Words as unit vectors: all that is asked of them are cosines."""
        vectors = self.dropout(self.embedding(tokens))
        ahead, _ = self.forwards(vectors)
        back, _ = self.backwards(reverse_words(vectors, tokens))
        words = (ahead + reverse_words(back, tokens)) / 2  # N, J, E
        units = functional.normalize(words, dim=2)
        return Words(units.masked_fill(~tokens.mask[:, :, None], 0.0), tokens.mask)

    def score(self, images: Batch, sentences: Batch) -> Tensor:
        """Pooled relevances of all words; M, N."""
        regions, words = cast(Regions, images), cast(Words, sentences)
        pair_size = regions.vectors.shape[1] * words.vectors.shape[1]
        return score_slices(self._grid_scores, regions, words, pair_size, recompute=True)

    def _grid_scores(self, regions: Regions, words: Words) -> Tensor:
        units = functional.normalize(regions.vectors, dim=2)
        cosines = inner_products(words.vectors, units)  # m, n, J, I
        alpha = self._attention(cosines)
        relevance = _relevance(alpha.flatten(1, 2), cosines.flatten(1, 2), regions)  # m, nJ
        return self._running_scores(relevance.view(cosines.shape[:3]), words.mask)[..., -1]

    def _attend(self, images: Batch, sentences: Batch) -> Saliency:
        regions, words = cast(Regions, images), cast(Words, sentences)
        units = functional.normalize(regions.vectors, dim=2)
        cosines = words.vectors @ units.transpose(1, 2)  # P, J, I
        alpha = self._attention(cosines)  # P, J, I
        relevance = _relevance(alpha, cosines, regions)  # P, J
        return word_saliency(alpha, self._running_scores(relevance, words.mask), words.mask)

    def _attention(self, cosines: Tensor) -> Tensor:
        """alpha_j for words (..., J, I); padding has zero cosines and adds nothing to a region's norm."""
        clipped = functional.normalize(functional.relu(cosines), dim=-2)
        return torch.softmax(self.config.attention_scale * clipped, dim=-1)

    def _running_scores(self, relevance: Tensor, mask: Tensor) -> Tensor:
        """The score of the words up to each one; (..., J), the last one the whole sentence's."""
        if self.config.pooling == "average":
            return (relevance * mask).cumsum(-1) / mask.cumsum(-1)
        scale = self.config.pooling_scale
        real = (scale * relevance).masked_fill(~mask, -torch.inf)
        return real.logcumsumexp(-1) / scale


def _relevance(alpha: Tensor, cosines: Tensor, regions: Regions) -> Tensor:
    """R_j of words (b, J) from their maps and cosines (b, J, I)."""
    norms: Tensor = torch.linalg.vector_norm(regions.vectors, dim=2)[:, None]  # b, 1, I
    products = regions.vectors @ regions.vectors.transpose(1, 2)  # b, I, I
    along = (alpha * cosines * norms).sum(2)  # e_j . a_j of unit e_j
    squared = (alpha * (alpha @ products)).sum(2)  # |a_j|^2
    return along / squared.clamp(min=_SMALLEST).sqrt()
