"""The loss of one batch: encode both sides once, score the grid of pairs, rank.

Rows of the grid are the batch's images, each once; columns are its captions. Only captions of other images count
as mismatched.

Memory: autograd keeps everything a pair went through. Where that would be more than `grid_bytes`, the grid is cut
into blocks of images whose inside is computed again in the backward pass: 101 x 101 pairs of any size then need
no more than a block and the encoded sides.
"""

from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from smlstm.matching.batch import Batch, ImageFeatures, Saliency, Tokens, join
from smlstm.matching.matcher import Matcher
from smlstm.model import SMLSTM, ObjectiveConfig
from smlstm.model.objective import ranking_loss, regulariser
from smlstm.model.smlstm import EncodedSide
from smlstm.training.phrases import PhraseBatch, phrase_loss

GRID_BYTES = 5 << 28
"""What autograd may keep of a grid of pairs: a third of the 4 GiB that a batch may need in all."""


@dataclass(frozen=True)
class TrainingBatch:
    """What one step reads."""

    features: ImageFeatures  # U images
    tokens: Tokens  # N captions
    image_of: Tensor  # N: which of the U images each caption describes
    images: Tensor  # U: their numbers among all images, by which processes that share a batch know them
    phrases: PhraseBatch | None = None

    def to(self, device: torch.device) -> "TrainingBatch":
        """Move everything to a device."""
        return TrainingBatch(
            self.features.to(device),
            self.tokens.to(device),
            self.image_of.to(device),
            self.images.to(device),
            None if self.phrases is None else self.phrases.to(device),
        )


class BatchLoss(nn.Module):
    """Ranking loss and regulariser of a batch; a module, so that gradients can be averaged across processes."""

    def __init__(
        self,
        matcher: Matcher,
        objective: ObjectiveConfig,
        grid_bytes: int = GRID_BYTES,
        phrases: float = 0.0,
        stepped_captions: int | None = None,
    ) -> None:
        """With `stepped_captions`, so many captions of each image are scored step by step, all by global scores."""
        super().__init__()
        self.matcher = matcher
        self.objective = objective
        self._grid_bytes = grid_bytes
        self._phrases = phrases
        self._stepped = stepped_captions

    def forward(self, batch: TrainingBatch, generator: torch.Generator | None = None) -> Tensor:
        """Ranking loss and weighted regulariser; 2."""
        images = self.matcher.encode_images(batch.features)
        sentences = encode_sentences(self.matcher, batch.tokens)
        found = self._grid_loss(images, sentences, batch.image_of, batch.tokens.mask, generator)
        return add_phrases(found, self.matcher, images, sentences, batch.phrases, self.objective, self._phrases)

    def _grid_loss(
        self, images: Batch, sentences: Batch, row_of: Tensor, words: Tensor, generator: torch.Generator | None
    ) -> Tensor:
        everyone, all_rows = sentences, row_of
        if self._stepped is not None:
            some = first_of_each(row_of, self._stepped)
            sentences, row_of, words = sentences.select(some), row_of[some], words[some]
        matched = torch.stack([row_of, torch.arange(len(row_of), device=row_of.device)], 1)  # N, 2
        maps = wants_maps(self.matcher, self.objective)
        scores, saliency = score_grid(self.matcher, images, sentences, matched if maps else None, self._grid_bytes)
        rows = torch.arange(len(images), device=row_of.device)
        terms = [(term, row_of) for term in scores.unbind(2)]
        if len(everyone) > len(sentences):
            assert isinstance(self.matcher, SMLSTM)
            wholes = self.matcher.whole_scores(images, everyone)
            terms[1 : 1 + len(wholes)] = [(term, all_rows) for term in wholes]
        ranked = [ranking_loss(term.float(), rows, of, self.objective, generator) for term, of in terms]
        ranking = torch.stack(ranked).mean()
        if saliency is None:
            return torch.stack([ranking, torch.zeros_like(ranking)])
        return torch.stack([ranking, regulariser(saliency, words, self.objective)])


def add_phrases(  # noqa: PLR0917 - what both kinds of loss know
    found: Tensor,
    matcher: Matcher,
    images: Batch,
    sentences: Batch,
    phrases: PhraseBatch | None,
    objective: ObjectiveConfig,
    weight: float,
) -> Tensor:
    """A loss (2) with that of phrases in its ranking."""
    if phrases is None or not weight:
        return found
    assert isinstance(matcher, SMLSTM)
    read_alone = encode_sentences(matcher, phrases.tokens)
    loss = phrase_loss(matcher, images, (read_alone, sentences), phrases, objective)
    return found + torch.stack([weight * loss, torch.zeros_like(loss)])


def first_of_each(row_of: Tensor, most: int) -> Tensor:
    """The places of each image's first captions, at most so many, in their order."""
    same = row_of[:, None] == row_of[None, :]  # N, N
    before = torch.ones_like(same).tril(-1)
    return ((same & before).sum(1) < most).nonzero().squeeze(1)


def wants_maps(matcher: Matcher, objective: ObjectiveConfig) -> bool:
    """Whether the regulariser has something to teach: maps that are learned."""
    return isinstance(matcher, SMLSTM) and matcher.config.variant in ("att", "full") and objective.regulariser > 0


def needs_regions(matcher: Matcher) -> bool:
    """Whether a matcher looks at regions at all; if not, they need not be read."""
    if isinstance(matcher, SMLSTM):
        return matcher.config.variant != "ctx" or matcher.config.image_pooling == "max"
    return matcher.kind not in ("mnlm", "vse++", "oem")


def encode_sentences(matcher: Matcher, tokens: Tokens, parts: int = 3) -> Batch:
    """Encode sentences sorted by length in a few parts: an LSTM over padding is time for nothing.

    In float32 always: torch has no bfloat16 LSTM on many CPUs, and its cost is small beside the pairs'.
    """
    with torch.autocast(tokens.ids.device.type, enabled=False):
        return _encode_by_length(matcher, tokens, parts)


def _encode_by_length(matcher: Matcher, tokens: Tokens, parts: int) -> Batch:
    if len(tokens) < 8 * parts:
        return matcher.encode_sentences(tokens)
    order = tokens.lengths.argsort(stable=True)
    encoded = []
    for places in order.tensor_split(parts):
        encoded.append(matcher.encode_sentences(tokens.select(places).without_padding()))
    return join(encoded).select(order.argsort())


def score_grid(
    matcher: Matcher, images: Batch, sentences: Batch, matched: Tensor | None, grid_bytes: int = GRID_BYTES
) -> tuple[Tensor, Saliency | None]:
    """What is ranked of all pairs, each of K terms on its own (M, N, K), and, if wanted, the saliency of matched ones
    (rows of image, sentence).
    """
    rows = block_rows(matcher, images, sentences, grid_bytes)
    if rows >= len(images) or not torch.is_grad_enabled():
        return _score(matcher, images, sentences, matched)
    scores: list[Tensor] = []
    maps: list[Saliency] = []
    places: list[Tensor] = []
    for start in range(0, len(images), rows):
        block, own = images.select(slice(start, start + rows)), None
        if matched is not None:
            place = ((matched[:, 0] >= start) & (matched[:, 0] < start + rows)).nonzero().squeeze(1)
            own = matched[place] - matched.new_tensor([start, 0])
            places.append(place)
        part, seen = cast(
            tuple[Tensor, Saliency | None], checkpoint(_score, matcher, block, sentences, own, use_reentrant=False)
        )
        scores.append(part)
        if seen is not None:
            maps.append(seen)
    saliency = join(maps).select(torch.cat(places).argsort()) if maps else None
    return torch.cat(scores), saliency


def _score(matcher: Matcher, images: Batch, sentences: Batch, matched: Tensor | None) -> tuple[Tensor, Saliency | None]:
    if isinstance(matcher, SMLSTM):
        return matcher.score_terms(images, sentences, matched)
    return matcher.score(images, sentences)[:, :, None], None


def block_rows(matcher: Matcher, images: Batch, sentences: Batch, grid_bytes: int) -> int:
    """Images whose pairs with all sentences autograd may keep at a time; baselines cut their grids themselves."""
    if not isinstance(matcher, SMLSTM):
        return len(images)
    config, regions, words = matcher.config, cast(EncodedSide, images), cast(EncodedSide, sentences)
    candidates = regions.candidates.shape[1] + words.candidates.shape[1]
    attention = 0 if regions.keys is None else 4 * config.attention_width
    # Counted off the equations: maps and their logits, queries, both instances and s_t, gates and states.
    searches = isinstance(matcher, SMLSTM) and matcher.search is not None
    similarities = (8 if config.instance_score and not searches else 6) * config.similarity_width
    pair = config.steps * ((4 if searches else 2) * candidates + attention + similarities + 18 * config.hidden_width)
    width = 2 if torch.is_autocast_enabled(regions.candidates.device.type) else 4
    return max(1, grid_bytes // (width * pair * len(sentences)))
