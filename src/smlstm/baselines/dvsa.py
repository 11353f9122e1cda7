"""DVSA: deep visual-semantic alignments (Karpathy and Fei-Fei, CVPR 2015).

    v_i = W_m a_i + b_m                                                                              (eq. 1)
    e_t = f(W_e x_t + b_e)                                                                           (eq. 3)
    h^f_t = f(e_t + W_f h^f_{t-1} + b_f)        h^b_t = f(e_t + W_b h^b_{t+1} + b_b)                 (eqs. 4, 5)
    s_t = f(W_d (h^f_t + h^b_t) + b_d),  f = max(0, .)                                               (eq. 6)
    S_kl = sum over words t of max over regions i of v_i . s_t                                       (eq. 8)

Each word counts at its best region. A sum it is: longer sentences score higher, and a ranking of sentences
of different length inherits that from the paper.

Trained with the sum over all mismatched pairs, margin 1. Departures: regions are the backbone's grid where the
paper has 19 detected boxes and the whole image, and the CNN is frozen; word vectors x_t are trained with the
rest where the paper keeps word2vec's.
"""

from typing import ClassVar, cast

import torch
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


class DVSAConfig(BaselineConfig):
    """DVSA; the paper has 300 wide word vectors and E = 1000 to 1600, its recurrent network 300 to 600."""


class Recurrence(nn.Module):
    """One direction of the paper's recurrent network: h_t = max(0, e_t + W h_{t-1} + b), h_0 = 0."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.step = nn.Linear(width, width)

    def forward(self, inputs: Tensor) -> Tensor:
        """N, J, E to N, J, E."""
        state = inputs.new_zeros(len(inputs), inputs.shape[2])
        states = []
        for word in inputs.unbind(1):
            state = functional.relu(word + self.step(state))
            states.append(state)
        return torch.stack(states, 1)


class DVSA(Matcher):
    """Linear regions, words of a bidirectional recurrent network, each word at its best region."""

    kind: ClassVar[str] = "dvsa"
    config_type = DVSAConfig
    config: DVSAConfig
    attends: ClassVar[bool] = True

    def __init__(self, config: DVSAConfig, vocabulary: Vocabulary) -> None:
        super().__init__(config, vocabulary)
        self.embedding, vector_width = word_vectors(config, len(vocabulary), config.embedding_width)
        self.dropout = nn.Dropout(config.dropout)
        self.word = nn.Linear(vector_width, config.sentence_width)  # W_e
        self.forwards = Recurrence(config.sentence_width)  # W_f
        self.backwards = Recurrence(config.sentence_width)  # W_b
        self.sentence = nn.Linear(config.sentence_width, config.sentence_width)  # W_d
        self.region = nn.Linear(config.region_width, config.sentence_width)  # W_m

    @staticmethod
    def objective() -> ObjectiveConfig:
        """The paper's: all mismatched pairs of the batch, margin 1 on unbounded inner products."""
        return ObjectiveConfig(form="sum", margin=1.0, negatives=None, regulariser=0.0)

    def _encode_images(self, features: ImageFeatures) -> Regions:
        return Regions(self.region(scaled(features.regions)))

    def _encode_tokens(self, tokens: Tokens) -> Words:
        inputs = functional.relu(self.word(self.dropout(self.embedding(tokens))))  # N, J, E
        ahead = self.forwards(inputs)
        back = reverse_words(self.backwards(reverse_words(inputs, tokens)), tokens)
        words = functional.relu(self.sentence(ahead + back))
        return Words(words.masked_fill(~tokens.mask[:, :, None], 0.0), tokens.mask)

    def score(self, images: Batch, sentences: Batch) -> Tensor:
        """Best inner products summed over words; M, N."""
        regions, words = cast(Regions, images), cast(Words, sentences)
        pair_size = regions.vectors.shape[1] * words.vectors.shape[1]
        # The maximum keeps a place a word for its backward pass, not all inner products: nothing to recompute.
        return score_slices(_best_regions, regions, words, pair_size, recompute=False)

    def _attend(self, images: Batch, sentences: Batch) -> Saliency:
        regions, words = cast(Regions, images), cast(Words, sentences)
        products = words.vectors @ regions.vectors.transpose(1, 2)  # P, J, I
        best, place = products.max(2)  # P, J; zero on padding
        chosen = functional.one_hot(place, products.shape[2]).to(products.dtype)
        return word_saliency(chosen, best.cumsum(1), words.mask)


def _best_regions(regions: Regions, words: Words) -> Tensor:
    products = inner_products(words.vectors, regions.vectors)  # m, n, J, I
    return products.max(3).values.sum(2)  # padding has zero products
