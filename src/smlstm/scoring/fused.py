"""sm-LSTM over many pairs at the speed of its matrix products.

The same function as `SMLSTM.score`, rearranged; `tests/scoring` holds the two together. What is different:

- Every tanh is written as tanh(x) = 2 sig(2x) - 1, which is several times faster, and the factors 2 and the -1 go
  into weights that are prepared once. What a step keeps is h/2 and 2c.
- h W_h of the gates and of both attentions share their input: one product with the weights side by side.
- s W_s is added into the gates by the product itself; the gates are squashed in place, by one sigmoid.
- `gated`: w_p * tanh(q) . k_i = sig(2q) . (2 w_p k_i) - w_p . k_i; both factors of k_i are prepared once an image.
- `joint`: sig(k + q) = 1 / (1 + exp(-k) exp(-q)), see `model/joint.py`; exp(-k) is prepared once an image.
- h_0 = 0: the first step needs no h, no forget gate, and its attention is prepared once an image and a sentence.
- `mean`, `ctx` and `separate` look alike at every step: their s_t W_s is computed once for all of them.
- `paired`: what regions offer stands beside their keys, and what is sought beside the query, so that one product
  gives the logits. Step 1 looks at every pair, as later ones do.
- Padding has a prepared logit of minus infinity.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from smlstm.matching.batch import Batch
from smlstm.model.attention import ContextModulatedAttention, saliency
from smlstm.model.joint import moderate, weighted_units
from smlstm.model.paired import direction
from smlstm.model.smlstm import SMLSTM, EncodedSide
from smlstm.scoring.pair_layout import Chosen, Grid, Pairing
from smlstm.scoring.products import Products
from smlstm.scoring.scorer import Scorer


@dataclass(frozen=True)
class PreparedSide(Batch):
    """One side: what attention sees at h_0, and, where later steps look elsewhere, what they need for it."""

    first: Tensor  # B, S: attended at the first step; of `paired` regions, which depend on the pair, nothing: B, 0
    candidates: Tensor | None = None  # B, C, S
    keys: Tensor | None = None  # B, C, A: gated: 2 w_p k; joint: exp(-k), or k where that is not safe; of `paired`
    # regions: A + S, with what they offer
    own: Tensor | None = None  # B, C: the logit's part that no pair changes; minus infinity on padding
    reference: Tensor | None = None  # B, A: gated: 2 m W_m
    exponential: Tensor | None = None  # B: joint: whether keys are exp(-k)
    whole: Tensor | None = None  # B, E, or 2E of two readers: what `global_score` compares
    covered: Tensor | None = None  # B, C: of `paired` sentences: the first step's q


class FusedScorer(Scorer[PreparedSide]):
    """Scores pairs with one sm-LSTM, whose weights it has copied and rearranged."""

    @torch.no_grad()
    def __init__(self, model: SMLSTM, dtype: torch.dtype) -> None:
        config, aggregation = model.config, model.aggregation
        self.model, self.dtype, self.products = model, dtype, Products(dtype)
        self.encoding = dtype
        self.steps, self.width = config.steps, config.hidden_width
        self.product, self.joint = config.comparison == "product", config.modulation == "joint"
        self.agrees = config.instance_score
        self.search = model.search
        self.looks = config.variant in ("att", "full") and config.modulation != "separate" and config.steps > 1
        self.looks = self.looks or self.search is not None

        similarity, bias = _rearranged(aggregation.similarity.weight), _rearranged(aggregation.similarity.bias)
        if self.product:  # s = 2 sig(2uv) - 1
            bias, similarity = bias - similarity.sum(1), 2 * similarity
        hidden, biases = [2 * _rearranged(aggregation.hidden.weight)], [bias]
        for attention in (model.image_attention, model.sentence_attention) if self.looks else ():
            assert attention is not None
            weight = attention.hidden.weight
            hidden.append(-2 * weight if self.joint else 4 * weight)
            biases.append(weight.new_zeros(len(weight)) if self.joint else 2 * attention.hidden.bias)
        # Products run fastest with the weights laid out as they are read.
        self.hidden = torch.cat(hidden).T.to(dtype).contiguous()  # H, 4H or 4H + 2A
        self.bias = torch.cat(biases)
        self.similarity = similarity.T.to(dtype).contiguous()  # S, 4H
        self.unit = (2 * aggregation.unit.weight).T.to(dtype).contiguous()  # H, H
        self.unit_bias = aggregation.unit.bias.detach()
        said, self.agreed = model.term_weights[0], model.term_weights[-1]
        self.global_alone = not said and not (self.agrees and self.agreed)
        self.output, self.output_bias = said * aggregation.output.weight[0], said * aggregation.output.bias
        self.pair_width = len(self.bias) + 3 * self.width + 3 * config.similarity_width
        if self.search is not None:
            self.pair_width += config.attention_width + 2 * config.similarity_width

    def prepare_images(self, images: Batch) -> PreparedSide:
        """Images, with the 2 of s = 2 sig(2uv) - 1."""
        side = self._prepare(self.model.image_attention, images)
        if self.search is not None:
            assert isinstance(images, EncodedSide) and side.keys is not None
            offered = self.search.offered(images.candidates)  # M, I, S
            keys = torch.cat([side.keys, offered.to(side.keys.dtype)], 2)
            side = replace(side, first=side.first[:, :0], keys=keys, covered=None)
        if not self.product:
            return side
        candidates = None if side.candidates is None else 2 * side.candidates
        return replace(side, first=2 * side.first, candidates=candidates)

    def prepare_sentences(self, sentences: Batch) -> PreparedSide:
        """Sentences, without the padding that all of them share."""
        return self._prepare(self.model.sentence_attention, _trimmed(sentences))

    def _prepare(self, attention: ContextModulatedAttention | None, side: Batch) -> PreparedSide:
        assert isinstance(side, EncodedSide)
        keys, reference, exponential = side.keys, side.reference, None
        if attention is None or keys is None:
            logits = side.candidates.new_zeros(len(side), 1, side.candidates.shape[1])
        else:
            logits = attention.logits(keys, reference, None)
        looked = saliency(logits, side.mask)  # B, 1, C
        first = (looked @ side.candidates).squeeze(1)
        if not self.looks:
            return PreparedSide(first, whole=side.whole)
        assert attention is not None and keys is not None
        if self.joint:
            own = keys.new_zeros(keys.shape[:2])
            keys, reference = keys if reference is None else keys + reference[:, None], None
            safe = moderate(keys)
            keys = keys.neg().exp_() if safe else keys
            exponential = torch.full((len(side),), safe)
        else:
            weight = attention.weight
            own = -(keys @ weight)
            keys = (keys * (2 * weight)).to(self.dtype)
            reference = None if reference is None else 2 * reference
        if side.mask is not None:
            own = own.masked_fill(~side.mask, -torch.inf)
        covered = None if self.search is None else looked.squeeze(1)
        candidates = side.candidates.to(self.dtype)
        return PreparedSide(first, candidates, keys, own, reference, exponential, side.whole, covered)

    def grid(self, images: PreparedSide, sentences: PreparedSide) -> Tensor:
        """All pairs; m, n."""
        shape = len(images), len(sentences)
        scores = images.first.new_zeros(shape, dtype=torch.float32)
        if not self.global_alone:
            scores = self._run(Grid(*shape), images, sentences).view(shape)
        if images.whole is not None and sentences.whole is not None:
            scores.addmm_(images.whole, sentences.whole.T)
        return scores

    def chosen(self, images: PreparedSide, sentences: PreparedSide, rows: Tensor, columns: Tensor) -> Tensor:
        """Some pairs; P."""
        own = self._gathered(sentences, columns)
        scores = (
            images.first.new_zeros(len(rows), dtype=torch.float32)
            if self.global_alone
            else self._run(Chosen(rows), images, own)
        )
        if images.whole is not None and own.whole is not None:
            scores += torch.linalg.vecdot(images.whole[rows], own.whole)
        return scores

    def _gathered(self, side: PreparedSide, index: Tensor) -> PreparedSide:
        """Some items, the large parts of them in memory that is kept."""
        if side.keys is None or side.candidates is None or self.dtype != torch.float32:
            return side.select(index)
        large = {}
        for name, tensor in (("keys", side.keys), ("candidates", side.candidates)):
            out = self.products.keep(f"gathered {name}", (len(index), *tensor.shape[1:]), tensor)
            large[name] = torch.index_select(tensor, 0, index, out=out)
        small = replace(side, keys=None, candidates=None).select(index)
        return replace(small, **large)

    @torch.no_grad()
    def _run(self, pairing: Pairing, images: PreparedSide, sentences: PreparedSide) -> Tensor:
        gates_width, products = 4 * self.width, self.products
        seen, said = pairing.firsts(images.first, sentences.first)
        look_words = _Words(self, sentences)
        if self.search is not None:
            sought = pairing.spread(direction(sentences.first))
            nothing_seen = self.bias[gates_width : gates_width + self._attention_width]
            seen = self._search(pairing, images, nothing_seen.expand(len(sought), -1), sought)
        alike, agreement = self._compare(seen, said)  # P, S and P
        constant = None
        if self.looks or self.steps == 1:
            used = slice(self.width, gates_width)  # there is no memory to forget
            gates = products.linear("both", self.bias[used], alike, self.similarity[:, used])  # P, 3H
        else:
            constant = products.linear("constant", self.bias, alike, self.similarity)  # P, 4H
            gates = products.keep("both", tuple(constant.shape), constant).copy_(constant)[:, self.width :]
        hidden, memory = self._step(gates, None)
        for _ in range(1, self.steps):
            if constant is not None:
                gates = products.linear("both", constant, hidden, self.hidden)  # P, 4H
            else:
                both = products.linear("both", self.bias, hidden, self.hidden)  # P, 4H + 2A
                gates, (p, q) = both[:, :gates_width], both[:, gates_width:].chunk(2, dim=1)
                said = pairing.sentences(q, look_words)
                if self.search is None:
                    seen = pairing.images(p, lambda query, rows: self._look("image", query, images.select(rows)))
                else:
                    seen = self._search(pairing, images, p, direction(said).flatten(0, -2))
                alike, more = self._compare(seen, said)
                if agreement is not None and more is not None:
                    agreement += more
                products.add_linear(gates, alike, self.similarity)
            hidden, memory = self._step(gates, memory)
        units = products.linear("both", self.unit_bias, hidden, self.unit).sigmoid_()
        scores = units @ self.output + self.output_bias
        if agreement is None:
            return scores
        return scores.add_(agreement, alpha=self.agreed / (self.steps if self.looks else 1))

    def _step(self, gates: Tensor, memory: Tensor | None) -> tuple[Tensor, Tensor]:
        """One step of the LSTM from gates that are overwritten; h/2 and 2c; P, H."""
        i, c, o = gates.sigmoid_()[:, -3 * self.width :].chunk(3, dim=1)
        new = c.sub_(0.5).mul_(i)
        if memory is None:
            memory = torch.mul(new, 4, out=self.products.keep("memory", tuple(new.shape), new))
        else:
            memory.mul_(gates[:, : self.width]).add_(new, alpha=4)
        hidden = self.products.keep("hidden", tuple(new.shape), new)
        return torch.sigmoid(memory, out=hidden).sub_(0.5).mul_(o), memory

    def _compare(self, image: Tensor, sentence: Tensor) -> tuple[Tensor, Tensor | None]:
        """s, or (s + 1) / 2 for `product`; two that broadcast to the pairs -> P, S; and their cosines if wanted; P."""
        shape = tuple(max(sizes) for sizes in zip(image.shape, sentence.shape, strict=True))
        alike = self.products.keep("alike", shape, image)
        cosines = None
        if self.agrees:
            torch.mul(image, sentence, out=alike)
            lengths = [torch.linalg.vector_norm(side, dim=-1, dtype=torch.float32) for side in (image, sentence)]
            cosines = (alike.sum(-1, dtype=torch.float32) / (lengths[0] * lengths[1]).clamp_(min=1e-6)).flatten()
        if not self.product or not self.agrees:
            (torch.mul if self.product else torch.add)(image, sentence, out=alike)
        return alike.sigmoid_().flatten(0, -2), cosines

    @property
    def _attention_width(self) -> int:
        return (len(self.bias) - 4 * self.width) // 2

    def _search(self, pairing: Pairing, images: PreparedSide, query: Tensor, sought: Tensor) -> Tensor:
        """What each pair sees in its image, asked by context and history (P, A) and by what is sought (P, S)."""
        width = query.shape[1]

        def look(both: Tensor, rows: slice | Tensor) -> Tensor:
            side = images.select(rows)
            assert side.keys is not None and side.own is not None and side.candidates is not None
            gate = both[..., :width]
            if side.reference is not None:
                gate.add_(side.reference[:, None])
            gate.sigmoid_()
            logits = self.products.batched("image logits", side.own[:, None], both, side.keys.transpose(1, 2))
            return self.products.batched("image", None, torch.softmax(logits, dim=-1), side.candidates)

        both = self.products.keep("search", (len(query), width + sought.shape[1]), query)
        return pairing.images(torch.cat([query, sought], 1, out=both), look)

    def _look(self, name: str, query: Tensor, side: PreparedSide, words: "_Words | None" = None) -> Tensor:
        """What b items look like to n queries each, which are overwritten; b, n, A -> b, n, S."""
        assert side.keys is not None and side.own is not None and side.candidates is not None
        own = side.own[:, None]  # b, 1, C
        if self.joint:
            logits = self._joint_logits(name, query, side).add_(own)
        else:
            if side.reference is not None:
                query.add_(side.reference[:, None])
            logits = self.products.batched(f"{name} logits", own, query.sigmoid_(), side.keys.transpose(1, 2))
        if words is not None:
            return self.products.batched(name, None, words.saliency(logits), side.candidates)
        return self.products.batched(name, None, torch.softmax(logits, dim=-1), side.candidates)

    def _joint_logits(self, name: str, query: Tensor, side: PreparedSide) -> Tensor:
        """The query comes as -h W_h; b, n, C."""
        attention = self.model.image_attention if name == "image" else self.model.sentence_attention
        assert attention is not None and side.keys is not None and side.exponential is not None
        weight = attention.output.weight[0]
        if moderate(query) and side.exponential.all():
            return weighted_units(side.keys, query.exp_(), weight, exponentials=True)
        exponential = side.exponential.to(query.device)[:, None, None]
        keys = torch.where(exponential, -side.keys.log(), side.keys)
        return weighted_units(keys, query.neg_(), weight, exponentials=False)


class _Words:
    """Looks at the sentences of some pairs, step after step; of `paired`, remembers what had its turn."""

    def __init__(self, scorer: FusedScorer, sentences: PreparedSide) -> None:
        self._scorer, self._sentences = scorer, sentences
        self._covered = None if sentences.covered is None else sentences.covered[:, None]  # b, 1 or n, C

    def __call__(self, query: Tensor, rows: slice | Tensor) -> Tensor:
        remembers = None if self._covered is None else self
        return self._scorer._look("sentence", query, self._sentences.select(rows), remembers)

    def saliency(self, logits: Tensor) -> Tensor:
        """q_t, less what had its turn; b, n, C."""
        assert self._covered is not None and self._scorer.search is not None
        q = torch.softmax(logits - self._scorer.search.held.detach() * self._covered, dim=-1)
        self._covered = self._covered + q
        return q


def _rearranged(gates: Tensor) -> Tensor:
    """Rows of the gates i, f, c, o as f, i, c, o; those of c doubled, since its tanh becomes a sigmoid."""
    i, f, c, o = gates.chunk(4)
    return torch.cat([f, i, 2 * c, o])


def _trimmed(sentences: Batch) -> EncodedSide:
    """Sentences cut to the longest of them."""
    assert isinstance(sentences, EncodedSide)
    if sentences.mask is None or len(sentences) == 0:
        return sentences
    longest = int(sentences.mask.sum(1).max())
    keys = None if sentences.keys is None else sentences.keys[:, :longest].contiguous()
    return replace(
        sentences,
        candidates=sentences.candidates[:, :longest].contiguous(),
        mask=sentences.mask[:, :longest],
        keys=keys,
    )
