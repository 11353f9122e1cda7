"""Small matchers whose attention is known, and photos to go with them."""

from typing import ClassVar, cast

import torch
from torch import Tensor, nn

from smlstm.matching.batch import Batch, ImageFeatures, Saliency, Tokens
from smlstm.matching.matcher import Matcher, MatcherConfig
from smlstm.text import Vocabulary

WORDS = ("red", "green", "blue", "yellow", "orange", "purple", "pink", "black")
WORDS += ("circle", "square", "triangle", "star", "cross", "ring", "diamond", "heart")


class Known(Matcher):
    """Regions have a 1 for every word that names what is there; step t reads the t-th word that is known.

    `look` is "right" (where the word is), "centre" (the middle region), "wrong" (everywhere else) or "random". The
    score is the mean over known words of how much of them any region shows.
    """

    kind: ClassVar[str] = "known"
    config_type = MatcherConfig
    attends: ClassVar[bool] = True

    def __init__(self, look: str = "right", steps: int = 2) -> None:
        width = len(WORDS)
        super().__init__(MatcherConfig(region_width=width, context_width=width), Vocabulary(WORDS))
        self.look, self.steps = look, steps
        self.weight = nn.Parameter(torch.ones(1))
        self.chance = torch.Generator().manual_seed(0)

    def _encode_images(self, features: ImageFeatures) -> Batch:
        return features

    def _encode_tokens(self, tokens: Tokens) -> Batch:
        return tokens

    def _known(self, ids: Tensor) -> list[tuple[int, int]]:
        return [(place, int(row) - 2) for place, row in enumerate(ids) if int(row) >= 2]

    def score(self, images: Batch, sentences: Batch) -> Tensor:
        regions, ids = cast(ImageFeatures, images).regions, cast(Tokens, sentences).ids
        columns = [torch.stack([regions[:, :, word].amax(1) for _, word in self._known(row)]).mean(0) for row in ids]
        return torch.stack(columns, 1)

    def _attend(self, images: Batch, sentences: Batch) -> Saliency:
        regions, ids = cast(ImageFeatures, images).regions, cast(Tokens, sentences).ids
        pairs, count = len(ids), regions.shape[1]
        image = torch.zeros(pairs, self.steps, count)
        sentence = torch.zeros(pairs, self.steps, ids.shape[1])
        for pair, row in enumerate(ids):
            known = self._known(row)
            for step in range(self.steps):
                place, word = known[step % len(known)]
                sentence[pair, step, place] = 1
                image[pair, step] = self._map(regions[pair, :, word])
        scores = self.score(images, sentences).diagonal()[:, None].expand(-1, self.steps)
        return Saliency(image / image.sum(2, keepdim=True), sentence, scores)

    def _map(self, there: Tensor) -> Tensor:
        if self.look == "centre":
            return torch.eye(len(there))[len(there) // 2]
        if self.look == "random":
            return torch.rand(len(there), generator=self.chance)
        return (1 - there if self.look == "wrong" else there) + 1e-9
