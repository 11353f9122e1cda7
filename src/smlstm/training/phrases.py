"""The noun phrases of training captions: a photo is also to be found by each of them, which teaches attention where.

A phrase of a caption is sought in the batch's photos (`SMLSTM.seek`). A whole caption can be told from others by its
photo's background; "a brown dog" only by a dog. Photos one of whose captions has the phrase's last word, as a rule its
noun, in singular or plural, are not held against it: most photos of a batch show a man.

Phrases are sought as they are read alone, as people type them, half of them without their articles or as their last
word ("brown dog", "dog"), and, where a model's words are phrases, as they are read in the batch's captions, as its
steps find them. A global score ranks the photos by phrases read alone too, or it would not know what a word asks for.

With boxes (Flickr30k Entities, training photos only), the maps of a phrase are also taught directly: -log of the share
of its map that lies in the phrase's boxes, as far as the view of the photo shows them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from smlstm.data.entities import PhrasedPhoto
from smlstm.matching.batch import Batch, Tokens
from smlstm.model import SMLSTM, ObjectiveConfig
from smlstm.model.smlstm import EncodedSide
from smlstm.text import tokenise
from smlstm.text.forms import one_or_many
from smlstm.text.word_groups import named_things, phrase_forms
from smlstm.training.examples import CaptionTokens, Examples, Integers
from smlstm.vision.views import Part

_LEAST = 1e-4  # of a map inside of its boxes: a logarithm needs one
Boxes = npt.NDArray[np.float64]
"""Left, top, right and bottom as shares of the photo's sides; boxes, 4."""


@dataclass(frozen=True)
class Sought(Batch):
    """P phrases of a batch's images, where each is and where it may be."""

    image_of: Tensor  # P: which of the batch's images each is of
    elsewhere: Tensor  # P, U: images that may show it too
    inside: Tensor  # P, I: regions in its boxes; all False where there are none


@dataclass(frozen=True)
class PhraseBatch(Batch):
    """Phrases read alone, and those of the batch's captions."""

    tokens: Tokens
    alone: Sought
    in_captions: Sought | None
    """Some of those, None where the matcher's words are no phrases."""
    chosen: Tensor
    """Which those are, counted in the order of captions, and of phrases in them."""
    named: int
    """How many those captions name in all."""


@dataclass(frozen=True)
class _Named:
    """A phrase of a caption."""

    forms: tuple[int, ...]
    """As said and shorter: their places among all texts."""
    head: str
    boxes: Boxes | None


class CaptionPhrases:
    """Phrases of all training captions, each text once."""

    def __init__(self, training: Examples, *, boxes: bool, limit: int) -> None:
        """With `boxes`, where people have marked them; captions are read up to `limit` words."""
        texts: dict[str, int] = {}
        self._of_caption: list[list[_Named]] = []
        self._captions_of: dict[int, list[int]] = {}
        self._words: dict[int, set[str]] = {}
        for caption, (sentence, image) in enumerate(zip(training.captions, training.image_of.tolist(), strict=True)):
            words = tokenise(sentence)[:limit]
            photo = training.phrased[image] if boxes and training.phrased is not None else None
            marked = _marked(photo, words)
            self._of_caption.append(
                [
                    _Named(
                        tuple(
                            texts.setdefault(form, len(texts)) for form in phrase_forms(words[span.first : span.last])
                        ),
                        words[span.last - 1],
                        marked.get((span.first, span.last)),
                    )
                    for span in named_things(words)
                ]
            )
            self._captions_of.setdefault(image, []).append(caption)
            self._words.setdefault(image, set()).update(words)
        for image, said in enumerate(training.left_out):
            self._words.setdefault(image, set()).update(tokenise(said))
        self.texts = tuple(texts)

    def examples(self, training: Examples) -> Examples:
        """The phrases as if they were captions, for whoever encodes them; which image they are of is drawn."""
        return replace(training, captions=self.texts, image_of=np.zeros(len(self.texts), np.int64), phrased=None)

    def batch(
        self,
        images: Integers,
        captions: Integers,
        row_of: Integers,
        tokens: CaptionTokens,
        *,
        parts: Sequence[Part],
        side: int,
        in_captions: bool,
        draws: np.random.Generator,
    ) -> PhraseBatch:
        """About as many phrases as captions, drawn from all captions of the images; and as many of the captions'."""
        drawn = list(self._draw(images, max(1, round(len(captions) / len(images))), draws))
        rows = zip(captions.tolist(), row_of.tolist(), strict=True)
        said = [(row, each) for caption, row in rows for each in self._of_caption[caption]]
        places = np.array([_drawn_form(each.forms, draws) for _, each in drawn], np.int64)
        known = [self._words[image] for image in images.tolist()]
        chosen = np.sort(draws.permutation(len(said))[: len(captions)] if in_captions else np.zeros(0, np.int64))
        within = _sought([said[place] for place in chosen], known, parts, side) if in_captions else None
        alone = _sought(drawn, known, parts, side)
        return PhraseBatch(tokens.select(places), alone, within, torch.from_numpy(chosen), len(said))

    def _draw(self, images: Integers, each: int, draws: np.random.Generator) -> Iterable[tuple[int, _Named]]:
        """So many phrases of each image, by its row."""
        for row, image in enumerate(images.tolist()):
            own = [named for caption in self._captions_of[image] for named in self._of_caption[caption]]
            for place in draws.permutation(len(own))[:each]:
                yield row, own[int(place)]


def _drawn_form(forms: Sequence[int], draws: np.random.Generator) -> int:
    """As said half of the time."""
    draw = draws.random()
    return forms[0] if draw < 0.5 or len(forms) == 1 else forms[1 + int((draw - 0.5) * 2 * (len(forms) - 1))]


def _marked(photo: PhrasedPhoto | None, words: Sequence[str]) -> dict[tuple[int, int], Boxes]:
    """Boxes of those phrases of a caption that people marked, by their first word and what is behind their last."""
    for caption in () if photo is None else photo.captions:
        if tokenise(caption.text)[: len(words)] == list(words):
            assert photo is not None
            sides = np.array(photo.size * 2, float)
            return {(each.first, each.last): np.array(each.boxes) / sides for each in caption.phrases if each.boxes}
    return {}


def _sought(
    chosen: Sequence[tuple[int, _Named]], known: Sequence[set[str]], parts: Sequence[Part], side: int
) -> Sought:
    shown: dict[str, list[bool]] = {}
    for _, named in chosen:
        if named.head not in shown:
            either = one_or_many(named.head)
            shown[named.head] = [not either.isdisjoint(words) for words in known]
    inside = np.zeros((len(chosen), side * side), np.bool_)
    for place, (row, named) in enumerate(chosen):
        if named.boxes is not None:
            inside[place] = regions_in(named.boxes, parts[row], side)
    return Sought(
        torch.tensor([row for row, _ in chosen]),
        torch.tensor([shown[named.head] for _, named in chosen]),
        torch.from_numpy(inside),
    )


def regions_in(boxes: Boxes, part: Part, side: int) -> npt.NDArray[np.bool_]:
    """Regions of a view whose middle is in a box; side * side."""
    across, down = part.places(side)
    on = np.zeros((side, side), np.bool_)
    for left, top, right, bottom in boxes:
        on |= np.outer((top <= down) & (down <= bottom), (left <= across) & (across <= right))
    return on.reshape(-1)


def phrase_loss(
    matcher: SMLSTM, images: Batch, sentences: tuple[Batch, Batch], phrases: PhraseBatch, objective: ObjectiveConfig
) -> Tensor:
    """Of the encoded phrases that are read alone, and of those in the batch's encoded captions."""
    read_alone, captions = sentences
    what, where = matcher.first_sought(read_alone), phrases.alone
    losses = [sought_loss(*matcher.seek(images, what, where.image_of), where, objective)]
    wholes = matcher.whole_scores(images, read_alone)
    if wholes:
        losses.append(torch.stack([found_loss(found, where, objective) for found in wholes]).mean())
    if phrases.in_captions is not None:
        assert isinstance(captions, EncodedSide) and captions.mask is not None
        named = captions.candidates[captions.mask]
        assert len(named) == phrases.named, "captions and phrases are not of one batch"
        what, where = named[phrases.chosen], phrases.in_captions
        losses.append(sought_loss(*matcher.seek(images, what, where.image_of), where, objective))
    return torch.stack(losses).mean()


def sought_loss(found: Tensor, maps: Tensor, where: Sought, objective: ObjectiveConfig) -> Tensor:
    """Each phrase's photo among those that do not show it, and, where boxes are known, its map within them.

    Cosines of all photos are U, P; maps are those on each phrase's own photo; P, I.
    """
    total = found_loss(found, where, objective)
    # A view may show nothing of a box, or nothing else.
    known = where.inside.any(1) & ~where.inside.all(1)
    if not bool(known.any()):
        return total
    shares = (maps.float() * where.inside).sum(1)[known]
    return total - shares.clamp(min=_LEAST).log().mean()


def found_loss(found: Tensor, where: Sought, objective: ObjectiveConfig) -> Tensor:
    """Each phrase's photo among those that do not show it, by cosines of all photos; U, P."""
    own = where.image_of
    held = where.elsewhere.clone()
    held[torch.arange(len(own), device=own.device), own] = False
    logits = (found.float().T / objective.temperature).masked_fill(held, -torch.inf)  # P, U
    return functional.cross_entropy(logits, own)
