"""sm-LSTM, the whole model: T steps of attending, comparing and aggregating (section 3).

For every pair of an image and a sentence, at each step t:

    q_t, p_t    where to look, from the candidates, the global contexts and h_{t-1}   (attention.py, paired.py)
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

Beyond the paper, and off unless asked for: terms that are added to its score (whole.py, instances.py), and other ways
to read a sentence (readers.py).
"""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, cast

import torch
from torch import Tensor, nn

from smlstm.errors import InputError
from smlstm.matching.batch import Batch, ImageFeatures, Saliency, Tokens
from smlstm.matching.matcher import Matcher
from smlstm.model.aggregation import Aggregation, State
from smlstm.model.attention import ContextModulatedAttention, saliency
from smlstm.model.comparison import Comparison, attended, cosines, found_cosines, lengths
from smlstm.model.config import SMLSTMConfig
from smlstm.model.image import scaled, with_some_channels
from smlstm.model.instances import mean_agreement
from smlstm.model.paired import BOUND, SHARPNESS, Search, direction
from smlstm.model.phrases import over_words, pooled
from smlstm.model.readers import sentence_contexts, sentence_words, word_vectors
from smlstm.model.whole import image_whole, image_wholes, sentence_whole, whole_scores
from smlstm.text import Vocabulary


@dataclass(frozen=True)
class EncodedSide(Batch):
    """One side, ready for pairing: B images with C = I regions, or B sentences with C = J words."""

    candidates: Tensor  # B, C, S: projected for the comparison
    mask: Tensor | None  # B, C: True where a candidate is real; None: all are
    keys: Tensor | None  # B, C, A: None without attention
    reference: Tensor | None  # B, A: the global context's term; None without context
    whole: Tensor | None = None  # B, E, or 2E of two readers: x or v; None without `global_score`
    phrases: Tensor | None = None  # N, J: which phrase a word is of, where the C candidates are phrases
    words: Tensor | None = None  # N, J, S: words, projected as candidates are, where those are phrases


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
        self.reads_phrases = config.words == "phrases"  # type: ignore[misc]
        self.dropout = nn.Dropout(config.dropout)
        self.feature_dropout = nn.Dropout(config.feature_dropout)
        # 3.1: word vectors; n, between two that are None in the paper; w_j
        self.embedding, width = word_vectors(config, len(vocabulary), config.embedding_width)
        contexts = sentence_contexts(config, len(vocabulary), width)
        self.context_embedding, self.sentence_context, self.read_context = contexts
        self.words = sentence_words(config, width)
        # 3.2, 3.3: f_p and f_q
        searches = config.modulation == "paired" and config.variant in ("att", "full")
        self.image_attention = _attention(
            config, config.region_width, config.context_width, bound=BOUND if searches else None
        )
        self.sentence_attention = _attention(
            config, config.word_width, config.sentence_width, sharpness=SHARPNESS if searches else 1.0
        )
        self.search = Search() if searches else None
        # 3.4: s_t, h_t and s
        compared = (config.region_width, config.word_width)
        if config.variant == "ctx":
            compared = (config.context_width, config.sentence_width)
        self.comparison = Comparison(*compared, config.similarity_width, config.comparison, config.dropout)
        self.aggregation = Aggregation(config.similarity_width, config.hidden_width)
        # None in the paper: the global score
        self.image_whole, self.region_whole = image_wholes(config)
        self.term_weights: tuple[float, ...] = config.term_weights or (1.0,) * config.terms

    def weighing(self, weights: Sequence[float]) -> "SMLSTM":
        """The same model, sharing all that it has learned, in whose score the terms count so; 0: not at all."""
        other = copy.copy(self)
        other.term_weights = tuple(weights)
        return other

    def _encode_images(self, features: ImageFeatures) -> EncodedSide:
        features = ImageFeatures(scaled(features.regions), scaled(features.context))
        width = self.config.sentence_width
        whole = image_whole(self.image_whole, self.region_whole, features, self.dropout, width)
        if whole is not None:  # x as long as its score counts
            counts = whole.new_tensor(self.term_weights[1 : 1 + self.config.readers])
            whole = whole * counts.repeat_interleave(width)
        m = self.feature_dropout(features.context)  # M, D
        # In the variant `ctx` the contexts stand in for the instances.
        a = m[:, None]  # M, I, F
        if self.config.variant != "ctx":
            a = with_some_channels(features.regions, self.feature_dropout)
        keys, reference = _keys(self.image_attention, a, m)
        candidates = self.comparison.image(a)
        return EncodedSide(candidates, None, keys, reference, whole)

    def _encode_tokens(self, tokens: Tokens) -> EncodedSide:
        vectors = self.dropout(self.embedding(tokens))  # N, J, embedding
        learned = vectors if self.context_embedding is None else self.dropout(self.context_embedding(tokens))
        n = None if self.sentence_context is None else self.sentence_context(learned, tokens)  # N, E
        other = None if self.read_context is None else self.read_context(vectors, tokens)
        whole = None if n is None or self.image_whole is None else sentence_whole(n, other)
        if self.words is None:
            return EncodedSide(self.comparison.sentence(n)[:, None], None, None, None, whole)
        w = self.words(vectors, tokens)  # N, J, G
        if tokens.phrases is None or not self.reads_phrases:
            keys, reference = _keys(self.sentence_attention, w, n)
            return EncodedSide(self.comparison.sentence(w), tokens.mask, keys, reference, whole)
        phrases, mask = pooled(w, tokens.phrases)  # N, K, G
        keys, reference = _keys(self.sentence_attention, phrases, n)
        words, named = self.comparison.sentence(w), self.comparison.sentence(phrases)
        return EncodedSide(named, mask, keys, reference, whole, phrases=tokens.phrases, words=words)

    def score(self, images: Batch, sentences: Batch) -> Tensor:
        """Scores of all pairs; M, N."""
        return self._sum(self._terms(self._run(_side(images), _side(sentences)), _side(images), _side(sentences)))

    def score_terms(
        self, images: Batch, sentences: Batch, pairs: Tensor | None = None
    ) -> tuple[Tensor, Saliency | None]:
        """The terms of which scores are made (M, N, K), each on its own, unweighted; the saliency of chosen pairs."""
        if pairs is not None:
            self._refuse_without_maps()
        steps = self._run(_side(images), _side(sentences))
        terms = self._terms(steps, _side(images), _side(sentences))
        if pairs is None:
            return terms, None
        rows, columns = pairs[:, 0], pairs[:, 1]
        chosen = Saliency(
            torch.stack([_pick(step.image_saliency, rows, columns) for step in steps], 1),
            _of_words(
                torch.stack([_pick(step.sentence_saliency, columns, rows) for step in steps], 1),
                _side(sentences).select(columns),
            ),
            torch.stack(self._progress(steps, terms, rows, columns), 1),
        )
        return terms, chosen

    def _progress(self, steps: list[Step], terms: Tensor, rows: Tensor, columns: Tensor) -> list[Tensor]:
        """The score of some pairs as it stands after each step."""
        added = self._wholes(terms)[rows, columns]
        agreements = [_pick(step.agreement, rows, columns) for step in steps if step.agreement is not None]
        said, agreed = self.term_weights[0], self.term_weights[-1]
        return [
            said * self.aggregation.score(step.state.hidden[rows, columns])
            + added
            + (agreed * torch.stack(agreements[: number + 1]).mean(0) if agreements else 0.0)
            for number, step in enumerate(steps)
        ]

    def _wholes(self, terms: Tensor) -> Tensor:
        """Of the terms, what no step has a part in; M, N."""
        wholes = slice(1, 1 + self.config.readers)
        return (terms[:, :, wholes] * terms.new_tensor(self.term_weights[wholes])).sum(2)

    def _sum(self, terms: Tensor) -> Tensor:
        """Of the terms (M, N, K), each as it counts; M, N."""
        return (terms * terms.new_tensor(self.term_weights)).sum(2)

    def _terms(self, steps: list[Step], images: EncodedSide, sentences: EncodedSide, aligned: bool = False) -> Tensor:
        """The paper's score, and what is added to it beyond the paper; M, N, K."""
        score = self.aggregation.score(steps[-1].state.hidden)
        wholes = whole_scores(images.whole, sentences.whole, self.config.sentence_width, aligned)
        return torch.stack([score, *wholes, *mean_agreement([step.agreement for step in steps], score)], 2)

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
        return self._sum(self._terms(steps, _side(images), _side(sentences), aligned=True)).squeeze(1)

    def _attend(self, images: Batch, sentences: Batch) -> Saliency:
        steps = self._run(_side(images), _side(sentences), aligned=True)
        so_far = [
            self._terms(steps[: step + 1], _side(images), _side(sentences), aligned=True) for step in range(len(steps))
        ]
        return Saliency(
            torch.cat([step.image_saliency for step in steps], dim=1),
            _of_words(torch.cat([step.sentence_saliency for step in steps], dim=1), _side(sentences)),
            torch.cat([self._sum(terms) for terms in so_far], dim=1),
            None if self.search is None else self._word_maps(_side(images), _side(sentences)),
            self._wholes(so_far[-1]).squeeze(1),
        )

    def word_maps(self, images: Batch, sentences: Batch, pairs: Tensor) -> Tensor:
        """Where each word is, sought alone before anything was seen; P, J, I. Only `paired` can say it."""
        if self.search is None:
            raise InputError(
                f"this model (variant {self.config.variant}, modulation {self.config.modulation}) has no map for each "
                "word: it does not search the image for words; one of modulation `paired` does"
            )
        return self._word_maps(_side(images).select(pairs[:, 0]), _side(sentences).select(pairs[:, 1]))

    def _word_maps(self, images: EncodedSide, sentences: EncodedSide) -> Tensor:
        """Where each word of the pairs (images[k], sentences[k]) is; P, J, I."""
        words = sentences.candidates if sentences.words is None else sentences.words
        return self._regions(images, None, images.candidates @ direction(words).transpose(1, 2))

    def seek(self, images: Batch, sought: Tensor, own: Tensor) -> tuple[Tensor, Tensor]:
        """Search all images for each of P things (P, S), before anything was seen.

        The cosines of what is sought and what is found (M, P), and the maps on each thing's own image (P, I). As a step
        does it, but that what is found there is never made.
        """
        side = _side(images)
        assert self.search is not None
        alike = side.candidates @ direction(sought).T  # M, I, P
        logits = _logits(self.image_attention, side, None) + self.search.offered(alike).transpose(1, 2)
        p = saliency(logits, None)  # M, P, I
        return found_cosines(p, alike, side.candidates), p[own, torch.arange(len(own), device=own.device)]

    def whole_scores(self, images: Batch, sentences: Batch) -> list[Tensor]:
        """The cosines of `global_score` alone, of each reader; M, N. Nothing without it."""
        wholes = _side(images).whole, _side(sentences).whole
        return whole_scores(*wholes, self.config.sentence_width, aligned=False)

    def first_sought(self, sentences: Batch) -> Tensor:
        """What the first step seeks of each sentence: w'_1; N, S."""
        side = _side(sentences)
        return attended(self._words(side, None, None), side.candidates)[:, 0]

    def _run(self, images: EncodedSide, sentences: EncodedSide, aligned: bool = False) -> list[Step]:
        """All T steps. Aligned: pair k is (images[k], sentences[k]), a grid of P rows and one column."""

        def across(pairs: Tensor) -> Tensor:
            """Between the image's view of the grid (M, N) and the sentence's (N, M)."""
            return pairs if aligned else pairs.transpose(0, 1)

        steps: list[Step] = []
        state: State | None = None
        covered: Tensor | None = None  # N, M or 1, J: how much each word was attended to
        for _ in range(self.config.steps):
            hidden = None if state is None else state.hidden
            q = self._words(sentences, None if hidden is None else across(hidden), covered)
            covered = q if covered is None else covered + q
            said = across(attended(q, sentences.candidates))  # M or 1, N, S
            alike = None  # M, I, N: how much of what is said each region has
            if self.search is not None:
                alike = images.candidates @ said.transpose(1, 2) / across(lengths(q, sentences.candidates))[:, None]
            p = self._regions(images, hidden, alike)
            seen = attended(p, images.candidates)  # M, N or 1, S
            state = self.aggregation(self.comparison(seen, said), state)
            agreement = None
            if self.config.instance_score:
                agreement = cosines(seen, said) if alike is None else found_cosines(p, alike, images.candidates)
            steps.append(Step(p, q, state, agreement))
        return steps

    def _words(self, sentences: EncodedSide, hidden: Tensor | None, covered: Tensor | None) -> Tensor:
        """q_t; N, M or 1, J."""
        logits = _logits(self.sentence_attention, sentences, hidden)
        return saliency(logits if self.search is None else self.search.hold(logits, covered), sentences.mask)

    def _regions(self, images: EncodedSide, hidden: Tensor | None, alike: Tensor | None) -> Tensor:
        """p_t, where the image may be searched for what is said; M, N or 1, I."""
        logits = _logits(self.image_attention, images, hidden)
        if self.search is not None and alike is not None:
            logits = logits + self.search.offered(alike).transpose(1, 2)
        return saliency(logits, images.mask)


def _attention(
    config: SMLSTMConfig,
    candidate_width: int,
    context_width: int,
    *,
    bound: float | None = None,
    sharpness: float = 1.0,
) -> ContextModulatedAttention | None:
    """f_p or f_q; None for the variants that do not attend."""
    if config.variant not in ("att", "full"):
        return None
    return ContextModulatedAttention(
        candidate_width,
        context_width if config.variant == "full" else None,
        config.hidden_width,
        config.attention_width,
        config.modulation,
        bound=bound,
        sharpness=sharpness,
    )


def _keys(
    attention: ContextModulatedAttention | None, candidates: Tensor, context: Tensor | None
) -> tuple[Tensor | None, Tensor | None]:
    """What attention makes of one side alone; B, C, A and B, A."""
    if attention is None:
        return None, None
    return attention.keys(candidates), None if context is None else attention.reference(context)


def _logits(attention: ContextModulatedAttention | None, side: EncodedSide, hidden: Tensor | None) -> Tensor:
    """How much each candidate is to be looked at; B, n or 1, C. Without attention: all alike."""
    if attention is None:
        return side.candidates.new_zeros(len(side), 1, side.candidates.shape[1])
    assert side.keys is not None
    return attention.logits(side.keys, side.reference, hidden)


def _pick(saliency: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """Maps of some pairs off a grid whose second axis may be a shared 1; P, C."""
    return saliency[first, second if saliency.shape[1] > 1 else 0]


def _of_words(saliency: Tensor, sentences: EncodedSide) -> Tensor:
    """q_t over the words, where the candidates are phrases; P, T, J."""
    return saliency if sentences.phrases is None else over_words(saliency, sentences.phrases)


def _side(batch: Batch) -> EncodedSide:
    return cast(EncodedSide, batch)
