"""Dev metrics: all pairs of a bounded number of images and their captions."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from smlstm.evaluation import Metrics, metrics, ranks
from smlstm.matcher import Matcher
from smlstm.training.examples import Examples
from smlstm.training.step import encode_sentences, needs_regions

_IMAGES, _SENTENCES = 25, 250
"""A tile of pairs: small enough for any size of model, large enough for the matrix products."""


@dataclass(frozen=True)
class DevMetrics:
    """Both directions, and the field's Sum of the six hit rates."""

    annotation: Metrics
    retrieval: Metrics
    images: int

    @property
    def sum(self) -> float:
        """The Sum that decides which model is best."""
        return self.annotation.sum + self.retrieval.sum

    def to_dict(self) -> dict[str, Any]:
        """As a line of the metrics file has it."""
        sides = {"annotation": asdict(self.annotation), "retrieval": asdict(self.retrieval)}
        return {"sum": self.sum, "images": self.images, **sides}


@torch.no_grad()
def dev_metrics(matcher: Matcher, examples: Examples) -> DevMetrics:
    """Measure a matcher as it would be used: without dropout."""
    training = matcher.training
    matcher.eval()
    images, row_of = np.unique(examples.image_of, return_inverse=True)
    scores = score_examples(matcher, examples, images)
    found = ranks(scores.float().cpu().numpy(), row_of.astype(np.int64))
    matcher.train(training)
    return DevMetrics(metrics(found.annotation), metrics(found.retrieval), len(images))


def score_examples(matcher: Matcher, examples: Examples, images: np.ndarray) -> Tensor:
    """All pairs of some images and all captions, tile by tile; M, N."""
    device = next(matcher.parameters()).device
    tokens = examples.encode(matcher.vocabulary, matcher.config.max_words)
    # Sorted by length, a tile has little padding.
    order = np.argsort(tokens.lengths, kind="stable")
    tiles = [order[start : start + _SENTENCES] for start in range(0, len(order), _SENTENCES)]
    sentences = [encode_sentences(matcher, tokens.select(tile).to(device)) for tile in tiles]
    scores = torch.empty(len(images), len(order))
    for start in range(0, len(images), _IMAGES):
        features = examples.images.read(images[start : start + _IMAGES], needs_regions(matcher))
        encoded = matcher.encode_images(features)
        for tile, part in zip(tiles, sentences, strict=True):
            scores[start : start + _IMAGES, torch.from_numpy(tile)] = matcher.score(encoded, part).float().cpu()
    return scores
