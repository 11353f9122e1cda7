"""sm-LSTM, the whole model: T steps of attending, comparing and aggregating (section 3).

For every pair of an image and a sentence, at each step t:

    p_t, q_t    where to look, from the candidates, the global contexts and h_{t-1}   (attention.py)
    a'_t, w'_t  what is seen there, and s_t, how alike the two are                    (comparison.py)
    h_t         what all steps so far say; after the last one, the score s            (aggregation.py)

Pairs live on a grid: M images down, N sentences across. Whatever depends on one side alone keeps a 1 on the
other axis and is computed once: with h_0 = 0 that is all of step 1's attention.

| variant | attended instances | context in attention |
|---|---|---|
| `mean` | plain means of regions and of real words | - |
| `att` | attention | none |
| `ctx` | the global contexts m and n themselves | - |
| `full` | attention | m, n |

With `global_score`, what the steps say is added to what the whole image and the whole sentence say, MNLM's score:

    s = w_hs . sig(W_hh h_T + b_h) + b_s + x . v       x = unit(m W_I + b), v = unit(n)

and with `image_pooling` `max`, x = unit(m W_I + b + max_i a_i W_R): m is often a mean over regions, in which what is
small is faint. With `context_words` `both` there are two such cosines, each with an x of its own: n is then made once
of learned vectors, and once as a linear map of the mean of the language model's.

With `instance_score`, what the steps say is added to how well the attended instances agree, step by step, as the Dual
Attention Networks of Nam et al. 2017 score them: a short way from the score to what is attended

    s = w_hs . sig(W_hh h_T + b_h) + b_s + 1/T sum_t cos(a'_t U + b_u, w'_t V + b_v)

The paper has no such terms; it adds the scores of two models up only once they are trained. For the same reason each
term is trained by a ranking loss of its own: on a loss of their sum the steps learn next to nothing, since the contexts
alone soon tell all training captions apart (docs/experiments.md).
"""

from dataclasses import dataclass
from typing import ClassVar, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from smlstm.errors import InputError
from smlstm.matching.batch import Batch, ImageFeatures, Saliency, Tokens
from smlstm.matching.matcher import Matcher
from smlstm.model.aggregation import Aggregation, State
from smlstm.model.attention import ContextModulatedAttention, saliency
from smlstm.model.comparison import Comparison, attended
from smlstm.model.config import SMLSTMConfig
from smlstm.model.image import scaled
from smlstm.model.sentence import PlainWords, SentenceContext, SentenceWords, WordEmbedding, word_vectors
from smlstm.text import Vocabulary


@dataclass(frozen=True)
class EncodedSide(Batch):
    """One side, ready for pairing: B images with C = I regions, or B sentences with C = J words."""

    candidates: Tensor  # B, C, S: projected for the comparison
    mask: Tensor | None  # B, C: True where a candidate is real; None: all are
    keys: Tensor | None  # B, C, A: None without attention
    reference: Tensor | None  # B, A: the global context's term; None without context
    whole: Tensor | None = None  # B, E, or 2E of two readers: x or v; None without `global_score`


@dataclass(frozen=True)
class Step:
    """What one step saw, on the grid of pairs."""

    image_saliency: Tensor  # M, N or 1, I
    sentence_saliency: Tensor  # N, M or 1, J (on aligned pairs: P, 1, J)
    state: State  # M, N, H
    agreement: Tensor | None  # M, N: the instances' cosine; None without `instance_score`


class SMLSTM(Matcher):
    """The selective multimodal LSTM in any of its four variants."""

    kind: ClassVar[str] = "sm-lstm"
    config_type = SMLSTMConfig
    config: SMLSTMConfig

    def __init__(self, config: SMLSTMConfig, vocabulary: Vocabulary) -> None:
        super().__init__(config, vocabulary)
        self.attends = config.variant != "ctx"  # type: ignore[misc]
        selects = config.variant in ("att", "full")
        in_context = config.variant == "full"
        by_context = config.variant == "ctx"

        self.embedding, vector_width = word_vectors(config, len(vocabulary), config.embedding_width)
        self.dropout = nn.Dropout(config.dropout)
        self.feature_dropout = nn.Dropout(config.feature_dropout)
        self.sentence_context: SentenceContext | None = None
        self.context_embedding: WordEmbedding | None = None
        if in_context or by_context or config.global_score:
            width = vector_width
            if config.context_words != "same":
                width = config.embedding_width
                self.context_embedding = WordEmbedding(len(vocabulary), width)
            self.sentence_context = SentenceContext(width, config.sentence_width, config.sentence_pooling)
        self.read_context: SentenceContext | None = None
        if config.context_words == "both":
            self.read_context = SentenceContext(vector_width, config.sentence_width, "mean")
        self.words: SentenceWords | PlainWords | None = None
        if not by_context:
            blstm = config.words == "blstm"
            self.words = SentenceWords(vector_width, config.word_width) if blstm else PlainWords()

        def attention(candidate_width: int, context_width: int) -> ContextModulatedAttention:
            return ContextModulatedAttention(
                candidate_width,
                context_width if in_context else None,
                config.hidden_width,
                config.attention_width,
                config.modulation,
            )

        self.image_attention = attention(config.region_width, config.context_width) if selects else None
        self.sentence_attention = attention(config.word_width, config.sentence_width) if selects else None
        self.comparison = Comparison(
            config.context_width if by_context else config.region_width,
            config.sentence_width if by_context else config.word_width,
            config.similarity_width,
            config.comparison,
            config.dropout,
        )
        self.aggregation = Aggregation(config.similarity_width, config.hidden_width)
        whole_width = config.sentence_width * (2 if config.context_words == "both" else 1)
        self.image_whole = nn.Linear(config.context_width, whole_width) if config.global_score else None  # W_I
        self.region_whole = (
            nn.Linear(config.region_width, whole_width, bias=False) if config.image_pooling == "max" else None
        )  # W_R

    def _encode_images(self, features: ImageFeatures) -> EncodedSide:
        features = ImageFeatures(scaled(features.regions), scaled(features.context))
        whole = self._image_whole(features)
        context = self.feature_dropout(features.context)
        if self.config.variant == "ctx":
            return EncodedSide(self.comparison.image(context)[:, None], None, None, None, whole)
        regions = features.regions
        if self.training and self.config.feature_dropout:
            regions = regions * self.feature_dropout(torch.ones_like(regions[:, :1]))  # M, I, F times M, 1, F
        keys = reference = None
        if self.image_attention is not None:
            keys, reference = self.image_attention.keys(regions), self.image_attention.reference(context)
        return EncodedSide(self.comparison.image(regions), None, keys, reference, whole)

    def _image_whole(self, features: ImageFeatures) -> Tensor | None:
        """x; M, E, or 2E of two readers. None without `global_score`."""
        if self.image_whole is None:
            return None
        x = self.image_whole(self.dropout(features.context))
        if self.region_whole is not None:
            x = x + self.region_whole(self.dropout(features.regions)).amax(1)
        return self._units(x)

    def _units(self, whole: Tensor) -> Tensor:
        """Each reader's part as a unit vector: a product of two wholes is the sum of their parts' cosines."""
        width = self.config.sentence_width
        parts = whole.view(len(whole), whole.shape[1] // width, width)
        # Not in half precision, whose coarse steps would tie.
        return functional.normalize(parts.to(torch.promote_types(parts.dtype, torch.float32)), dim=2).flatten(1)

    def _encode_tokens(self, tokens: Tokens) -> EncodedSide:
        vectors = self.dropout(self.embedding(tokens))  # N, J, embedding
        context = None
        if self.sentence_context is not None:
            learned = self.context_embedding
            read = vectors if learned is None else self.dropout(learned(tokens))
            context = self.sentence_context(read, tokens)  # N, E
        whole = None
        if context is not None and self.config.global_score:
            others = [] if self.read_context is None else [self.read_context(vectors, tokens)]
            whole = self._units(torch.cat([context, *others], 1))
        if self.words is None:
            return EncodedSide(self.comparison.sentence(context)[:, None], None, None, None, whole)
        words = self.words(vectors, tokens)  # N, J, G
        keys = reference = None
        if self.sentence_attention is not None:
            keys = self.sentence_attention.keys(words)
            reference = None if context is None else self.sentence_attention.reference(context)
        return EncodedSide(self.comparison.sentence(words), tokens.mask, keys, reference, whole)

    def score(self, images: Batch, sentences: Batch) -> Tensor:
        """Scores of all pairs; M, N."""
        return self._terms(self._run(_side(images), _side(sentences)), _side(images), _side(sentences)).sum(2)

    def score_terms(
        self, images: Batch, sentences: Batch, pairs: Tensor | None = None
    ) -> tuple[Tensor, Saliency | None]:
        """The terms of which scores are made (M, N, K), each on its own, and the saliency of chosen pairs."""
        if pairs is not None:
            self._refuse_without_maps()
        steps = self._run(_side(images), _side(sentences))
        terms = self._terms(steps, _side(images), _side(sentences))
        if pairs is None:
            return terms, None
        rows, columns = pairs[:, 0], pairs[:, 1]
        chosen = Saliency(
            torch.stack([_pick(step.image_saliency, rows, columns) for step in steps], 1),
            torch.stack([_pick(step.sentence_saliency, columns, rows) for step in steps], 1),
            torch.stack(self._progress(steps, terms, rows, columns), 1),
        )
        return terms, chosen

    def _progress(self, steps: list[Step], terms: Tensor, rows: Tensor, columns: Tensor) -> list[Tensor]:
        """The score of some pairs as it stands after each step."""
        wholes = 0 if self.image_whole is None else self.image_whole.out_features // self.config.sentence_width
        added: Tensor | float = terms[rows, columns, 1 : 1 + wholes].sum(1)
        agreements = [_pick(step.agreement, rows, columns) for step in steps if step.agreement is not None]
        return [
            self.aggregation.score(step.state.hidden[rows, columns])
            + added
            + (torch.stack(agreements[: number + 1]).mean(0) if agreements else 0.0)
            for number, step in enumerate(steps)
        ]

    def _terms(self, steps: list[Step], images: EncodedSide, sentences: EncodedSide, aligned: bool = False) -> Tensor:
        """What the steps say in the end and what is added to it; M, N, K."""
        terms = [self.aggregation.score(steps[-1].state.hidden)]
        if images.whole is not None and sentences.whole is not None:
            width = self.config.sentence_width
            for x, v in zip(torch.split(images.whole, width, 1), torch.split(sentences.whole, width, 1), strict=True):
                terms.append(_cosines(x[:, None], v[:, None] if aligned else v[None]))
        agreements = [step.agreement for step in steps if step.agreement is not None]
        if agreements:
            terms.append(torch.stack([agreement.expand_as(terms[0]) for agreement in agreements]).mean(0))
        return torch.stack(terms, 2)

    def attend(self, images: Batch, sentences: Batch, pairs: Tensor) -> Saliency:
        """Saliency maps of chosen pairs; `mean` looks everywhere alike, `ctx` nowhere."""
        self._refuse_without_maps()
        return super().attend(images, sentences, pairs)

    def _refuse_without_maps(self) -> None:
        if not self.attends:
            raise InputError("the variant `ctx` has no attention: it compares global contexts only")

    def score_pairs(self, images: Batch, sentences: Batch) -> Tensor:
        """Scores of the pairs (images[k], sentences[k]) only; P."""
        steps = self._run(_side(images), _side(sentences), aligned=True)
        return self._terms(steps, _side(images), _side(sentences), aligned=True).sum(2).squeeze(1)

    def _attend(self, images: Batch, sentences: Batch) -> Saliency:
        steps = self._run(_side(images), _side(sentences), aligned=True)
        so_far = [
            self._terms(steps[: step + 1], _side(images), _side(sentences), aligned=True).sum(2)
            for step in range(len(steps))
        ]
        return Saliency(
            torch.cat([step.image_saliency for step in steps], dim=1),
            torch.cat([step.sentence_saliency for step in steps], dim=1),
            torch.cat(so_far, dim=1),
        )

    def _run(self, images: EncodedSide, sentences: EncodedSide, aligned: bool = False) -> list[Step]:
        """All T steps. Aligned: pair k is (images[k], sentences[k]), a grid of P rows and one column."""

        def across(pairs: Tensor) -> Tensor:
            """Between the image's view of the grid (M, N) and the sentence's (N, M)."""
            return pairs if aligned else pairs.transpose(0, 1)

        steps: list[Step] = []
        state: State | None = None
        for _ in range(self.config.steps):
            hidden = None if state is None else state.hidden
            p = _saliency(self.image_attention, images, hidden)
            q = _saliency(self.sentence_attention, sentences, None if hidden is None else across(hidden))
            seen = attended(p, images.candidates)  # M, N or 1, S
            said = across(attended(q, sentences.candidates))  # M or 1, N, S
            state = self.aggregation(self.comparison(seen, said), state)
            steps.append(Step(p, q, state, _cosines(seen, said) if self.config.instance_score else None))
        return steps


def _saliency(attention: ContextModulatedAttention | None, side: EncodedSide, hidden: Tensor | None) -> Tensor:
    """Where one side is looked at; B, n or 1, C. Without attention: everywhere alike."""
    if attention is None:
        return saliency(side.candidates.new_zeros(len(side), 1, side.candidates.shape[1]), side.mask)
    assert side.keys is not None
    return saliency(attention.logits(side.keys, side.reference, hidden), side.mask)


def _cosines(first: Tensor, second: Tensor) -> Tensor:
    """Of two that broadcast to the pairs; M, N or 1, S and M or 1, N, S -> M, N."""
    if first.shape[1] == 1 and second.shape[0] == 1:
        return functional.normalize(first[:, 0], dim=1) @ functional.normalize(second[0], dim=1).T
    lengths = torch.linalg.vector_norm(first, dim=2) * torch.linalg.vector_norm(second, dim=2)
    cosines: Tensor = (first * second).sum(2) / lengths.clamp(min=1e-6)
    return cosines


def _pick(saliency: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """Maps of some pairs off a grid whose second axis may be a shared 1; P, C."""
    return saliency[first, second if saliency.shape[1] > 1 else 0]


def _side(batch: Batch) -> EncodedSide:
    return cast(EncodedSide, batch)
