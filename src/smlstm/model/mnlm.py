"""MNLM (Kiros et al. 2014), the paper's baseline and its initialiser.

    x = (m W_I + b) / |m W_I + b|       v = n / |n|,  n from an LSTM as a rule       s = x . v

Trained with the same ranking loss. An sm-LSTM starts from a trained one: word vectors, the sentence LSTM that
gives n, and the projections into the joint space where the two models have them in common.
"""

from dataclasses import dataclass
from typing import ClassVar, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from smlstm.matching.batch import Batch, ImageFeatures, Tokens
from smlstm.matching.matcher import Matcher
from smlstm.model.config import MNLMConfig
from smlstm.model.image import scaled
from smlstm.model.sentence import PlainWords, SentenceContext, SentenceWords, WordEmbedding, word_vectors
from smlstm.model.smlstm import SMLSTM
from smlstm.text import UNKNOWN, Vocabulary


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


@torch.no_grad()
def initialise_from_mnlm(model: SMLSTM, mnlm: MNLM) -> list[str]:
    """Start an sm-LSTM from a trained MNLM wherever their shapes agree; returns what was taken over.

    - Word vectors, matched by word, so the vocabularies may differ; and the sentence LSTM that gives n.
    - The words' forward LSTM, where it has the sentence LSTM's width: its state at the last word is then n.
    - The image projection, where both models project the same features: the context (variant `ctx`), or regions of
      the context's width, whose mean is the context for backbones that pool it so.
    - With `global_score`, the image's projection in it. With the same pooling the model then starts as the MNLM, plus
      what its steps add.
    - The sentence projection: MNLM's own, where both work on plain word vectors and it takes their mean. Otherwise MNLM
      has none, so that is the identity on n, or on the words' forward half.
    - With `context_words` `learned` or `both`: from an MNLM of learned words what makes and compares n, from one that
      reads with the language model the rest, but for the second cosine of `both`: from a random start that comes to
      know other things than the steps, which start from the same MNLM.
    """
    taken: list[str] = []
    width = mnlm.config.sentence_width
    same_vectors = model.config.language_model == mnlm.config.language_model and (
        bool(model.config.language_model) or model.config.embedding_width == mnlm.config.embedding_width
    )
    ours: nn.Module = model.embedding
    gives_words, gives_context, same_context = True, True, same_vectors
    if model.context_embedding is not None:
        # Two readers in one model: an MNLM that reads like the one has nothing to give to the other.
        ours, gives_words = model.context_embedding, bool(mnlm.config.language_model)
        gives_context = not gives_words
        same_context = gives_context and model.config.embedding_width == mnlm.config.embedding_width
    if same_vectors and model.config.language_model:
        taken.append("language model")
    if same_context and isinstance(ours, WordEmbedding) and isinstance(mnlm.embedding, WordEmbedding):
        known = [(row, mnlm.vocabulary.row(word)) for row, word in enumerate(model.vocabulary.words, start=2)]
        rows = torch.tensor([(UNKNOWN, UNKNOWN), *((new, old) for new, old in known if old != UNKNOWN)])
        ours.weight[rows[:, 0]] = mnlm.embedding.weight[rows[:, 1]]
        taken.append("word vectors")
    same_pooling = model.config.sentence_pooling == mnlm.config.sentence_pooling
    if same_context and model.sentence_context is not None and same_pooling and model.config.sentence_width == width:
        model.sentence_context.load_state_dict(mnlm.sentence_context.state_dict())
        taken.append("sentence context")
    knows_n = model.config.variant == "ctx" and model.config.sentence_width == width
    lstm = mnlm.sentence_context.lstm
    words = model.words
    if same_vectors and lstm is not None and isinstance(words, SentenceWords) and words.forwards.hidden_size == width:
        words.forwards.load_state_dict(lstm.state_dict())
        knows_n = True
        taken.append("words' forward LSTM")
    if gives_words and model.comparison.image.weight.shape == mnlm.image.weight.shape:
        model.comparison.image.load_state_dict(mnlm.image.state_dict())
        taken.append("image projection")
    whole = model.image_whole if gives_context else None
    if whole is not None and (len(mnlm.image.weight), whole.in_features) == (
        model.config.sentence_width,
        mnlm.image.in_features,
    ):
        whole.weight[:width], whole.bias[:width] = mnlm.image.weight, mnlm.image.bias
        taken.append("global score")
    linear = mnlm.sentence_context.linear
    same_shape = linear is not None and model.comparison.sentence.weight.shape == linear.weight.shape
    if same_vectors and linear is not None and isinstance(words, PlainWords) and same_shape:
        model.comparison.sentence.load_state_dict(linear.state_dict())
        taken.append("sentence projection")
    elif knows_n and model.config.similarity_width == width:
        nn.init.eye_(model.comparison.sentence.weight)
        nn.init.zeros_(model.comparison.sentence.bias)
        taken.append("sentence projection")
    return taken
