"""The noun phrases of training captions: a photo is also to be found by each of them, which teaches attention where.

A phrase of a caption is ranked against the batch's photos as a sentence of its own. A whole caption can be told from
others by its photo's background; "a brown dog" only by a dog. Photos one of whose captions has the phrase's last word,
as a rule its noun, are not held against it: most photos of a batch show a man.

With boxes (Flickr30k Entities, training photos only), the maps of a phrase are also taught directly: -log of the share
of each step's map that lies in the phrase's boxes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from smlstm.data.entities import PhrasedPhoto
from smlstm.matching.batch import Batch, Saliency, Tokens
from smlstm.model import SMLSTM, ObjectiveConfig
from smlstm.text import tokenise
from smlstm.text.phrases import noun_phrases
from smlstm.training.examples import CaptionTokens, Examples, Integers

_LEAST = 1e-4  # of a map inside of its boxes: a logarithm needs one


@dataclass(frozen=True)
class PhraseBatch(Batch):
    """P phrases of a batch's captions."""

    tokens: Tokens
    image_of: Tensor  # P: which of the batch's images each is of
    elsewhere: Tensor  # P, U: images that may show it too
    inside: Tensor  # P, I: regions in its boxes; all False where there are none


@dataclass(frozen=True)
class _Place:
    phrase: int
    boxes: npt.NDArray[np.bool_] | None


class CaptionPhrases:
    """Phrases of all training captions, each text once, ready to be drawn."""

    def __init__(self, training: Examples, side: int | None) -> None:
        """With a side, phrases and their boxes are those that people marked, on a grid of so many regions a side."""
        texts: dict[str, int] = {}
        self._of_image: dict[int, list[_Place]] = {}
        words: dict[int, set[str]] = {}
        for caption, image in zip(training.captions, training.image_of.tolist(), strict=True):
            said = tokenise(caption)
            words.setdefault(image, set()).update(said)
            photo = None if training.phrased is None else training.phrased[image]
            if side is not None and photo is not None:
                continue
            for span in noun_phrases(said):
                text = " ".join(said[span.first : span.last])
                place = _Place(texts.setdefault(text, len(texts)), None)
                self._of_image.setdefault(image, []).append(place)
        if side is not None and training.phrased is not None:
            for image in words:
                for text, boxes in _marked(training.phrased[image], side):
                    place = _Place(texts.setdefault(text, len(texts)), boxes)
                    self._of_image.setdefault(image, []).append(place)
        self.texts = tuple(texts)
        self._heads = [text.rsplit(" ", 1)[-1] for text in self.texts]
        self._words = words

    def examples(self, training: Examples) -> Examples:
        """The phrases as if they were captions, for whoever encodes them; which image they are of is drawn."""
        return replace(training, captions=self.texts, image_of=np.zeros(len(self.texts), np.int64), phrased=None)

    def draw(
        self, images: Integers, count: int, tokens: CaptionTokens, regions: int, draws: np.random.Generator
    ) -> PhraseBatch | None:
        """About so many phrases of some images, as many of each; None if these have none."""
        chosen: list[tuple[int, _Place]] = []
        each = max(1, round(count / len(images)))
        for row, image in enumerate(images.tolist()):
            own = self._of_image.get(image, [])
            for place in draws.permutation(len(own))[:each]:
                chosen.append((row, own[int(place)]))
        if not chosen:
            return None
        phrases = np.array([place.phrase for _, place in chosen], np.int64)
        known = [self._words[image] for image in images.tolist()]
        elsewhere = [[self._heads[place.phrase] in words for words in known] for _, place in chosen]
        empty = np.zeros(regions, np.bool_)
        inside = [empty if place.boxes is None else place.boxes for _, place in chosen]
        return PhraseBatch(
            tokens.select(phrases),
            torch.tensor([row for row, _ in chosen]),
            torch.tensor(elsewhere),
            torch.from_numpy(np.stack(inside)),
        )


def _marked(photo: PhrasedPhoto | None, side: int) -> list[tuple[str, npt.NDArray[np.bool_] | None]]:
    found: list[tuple[str, npt.NDArray[np.bool_] | None]] = []
    for caption in () if photo is None else photo.captions:
        for phrase in caption.phrases:
            if phrase.kinds[0] == "notvisual":
                continue
            assert photo is not None
            boxes = photo.regions_of(phrase, side) if phrase.boxes else None
            found.append((" ".join(tokenise(phrase.text)), boxes if boxes is not None and boxes.any() else None))
    return found


def ranked_terms(matcher: SMLSTM, terms: Tensor) -> Sequence[Tensor]:
    """What the steps say of pairs: not the global score, which looks nowhere; each M, P."""
    return [terms[:, :, 0], *([terms[:, :, -1]] if matcher.config.instance_score else [])]


def phrase_loss(
    terms: Sequence[Tensor], saliency: Saliency | None, phrases: PhraseBatch, objective: ObjectiveConfig
) -> Tensor:
    """Each phrase's photo among those that do not show it, and, where boxes are known, its maps within them."""
    own = phrases.image_of
    places = torch.arange(len(own), device=own.device)
    held = phrases.elsewhere.clone()
    held[places, own] = False
    losses = []
    for term in terms:
        logits = (term.float().T / objective.temperature).masked_fill(held, -torch.inf)  # P, U
        losses.append(functional.cross_entropy(logits, own))
    total = torch.stack(losses).mean()
    known = phrases.inside.any(1)
    if saliency is None or not bool(known.any()):
        return total
    shares = (saliency.image.float() * phrases.inside[:, None]).sum(2)[known]  # K, T
    return total - shares.clamp(min=_LEAST).log().mean()
