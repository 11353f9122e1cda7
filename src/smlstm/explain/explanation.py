"""The explanation of a pair: at each step, where on the photo and at which words a matcher looked."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from smlstm.errors import InputError
from smlstm.explain.maps import resize_map
from smlstm.explain.places import EVERYWHERE, describe_word, peak, place
from smlstm.explain.score_parts import ScoreParts
from smlstm.matching.batch import Batch, ImageFeatures, Saliency
from smlstm.matching.matcher import Matcher, evaluating
from smlstm.text import tokenise
from smlstm.text.function_words import is_function_word
from smlstm.text.phrases import Span
from smlstm.text.word_groups import word_groups

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Phrase:
    """What a step read: the words from `first` to before `last`, and their share of its attention."""

    text: str
    first: int
    last: int
    share: float


@dataclass(frozen=True, eq=False)
class Explanation:
    """What one matcher looked at in one pair, T steps in a row."""

    sentence: str
    words: tuple[str, ...]
    """The J words as the matcher reads them."""
    regions: Floats
    """p_t over the grid, T x rows x columns; each map sums to 1."""
    word_saliency: Floats
    """q_t, T x J; each row sums to 1."""
    scores: Floats
    """The score as it stands after each step; T."""
    name: str = ""
    """What to call the photo."""
    photo: Image.Image | None = field(default=None, repr=False)
    unknown: tuple[str, ...] = ()
    """Words that the matcher has not learned."""
    read_as: Mapping[str, str] = field(default_factory=dict)
    """Misspelt words, and what they were read as."""
    unread: tuple[str, ...] = ()
    """Those of them that are all the same to it: no language model has read them."""
    dropped: int = 0
    """Words beyond the matcher's limit, cut from the end."""
    word_maps: Floats | None = None
    """Where each word is by itself, J x rows x columns; None of a matcher that cannot say it."""
    whole: float = 0.0
    """What of the score no step has a part in."""

    @property
    def steps(self) -> int:
        """T."""
        return len(self.scores)

    @property
    def even_shares(self) -> Floats:
        """The maps in units of an even share: 1 wherever a step prefers no region. T x rows x columns."""
        shares: Floats = self.regions * np.float32(self.regions[0].size)
        return shares

    def maps(self, size: tuple[int, int]) -> Floats:
        """The maps resized to a photo of (width, height), each pixel with its region's saliency; T x height x width."""
        return np.stack([resize_map(grid, size) for grid in self.regions])

    @property
    def parts(self) -> ScoreParts:
        """How much of the score came from the steps, and how much from the whole."""
        return ScoreParts(float(self.scores[-1]) - self.whole, self.whole)

    @cached_property
    def quiet(self) -> tuple[bool, ...]:
        """Which words are function words: they name nothing that could be shown; J."""
        return tuple(is_function_word(word) for word in self.words)

    @cached_property
    def _groups(self) -> list[Span]:
        """The words that a step may be named by; of a matcher of a step a word, that word alone."""
        count = len(self.words)
        if self.steps == count and np.array_equal(self.word_saliency, np.eye(count)):
            return [Span(each, each + 1) for each in range(count)]
        return word_groups(self.words)

    def phrase(self, step: int) -> Phrase:
        """The phrase that holds most of a step's attention; of equal ones the first."""
        shares = self.word_saliency[step]
        best = max(self._groups, key=lambda span: float(shares[span.first : span.last].sum()))
        share = min(float(shares[best.first : best.last].sum()), 1.0)
        return Phrase(" ".join(self.words[best.first : best.last]), best.first, best.last, share)

    def word_map(self, word: int) -> Floats | None:
        """Where a word is, rows x columns; None of function words, and where the matcher cannot say it."""
        if self.word_maps is None or self.quiet[word] or self.words[word] in self.unread:
            return None
        grid: Floats = self.word_maps[word]
        return grid

    @property
    def mapped_words(self) -> list[tuple[int, Floats]]:
        """The words that have a map to show, by their places."""
        maps = [(word, self.word_map(word)) for word in range(len(self.words))]
        return [(word, grid) for word, grid in maps if grid is not None]

    def place(self, step: int) -> str:
        """Where a step looked most, in words: "upper left", "centre", or "everywhere alike"."""
        return place(self.regions[step])

    def describe(self, step: int) -> str:
        """One sentence on a step, for someone who does not see the picture."""
        phrase, where = self.phrase(step), self.place(step)
        looked = f"looks {where}" if where == EVERYWHERE else f"looks most at the {where} of the photo"
        score = f"the score is then {self.scores[step]:.3f}"
        return f"Step {step + 1}: reads “{phrase.text}” ({phrase.share:.0%}) and {looked}; {score}."

    def to_dict(self) -> dict[str, Any]:
        """As `--json` prints it."""
        return {
            "photo": self.name,
            "sentence": self.sentence,
            "score": float(self.scores[-1]),
            "unknown_words": list(self.unknown),
            "read_as": dict(self.read_as),
            "dropped_words": self.dropped,
            "parts": {"steps": self.parts.steps, "whole": self.parts.whole, "told": self.parts.describe()},
            "words": [self._word_dict(word) for word in range(len(self.words))],
            "steps": [self._step_dict(step) for step in range(self.steps)],
        }

    def _word_dict(self, word: int) -> dict[str, Any]:
        grid = self.word_map(word)
        return {
            "word": self.words[word],
            "function_word": self.quiet[word],
            "place": None if grid is None else place(grid),
            "told": None if grid is None else describe_word(self.words[word], grid),
            "regions": None if grid is None else _rounded(grid),
        }

    def _step_dict(self, step: int) -> dict[str, Any]:
        x, y = peak(self.regions[step])
        return {
            "score": float(self.scores[step]),
            "place": self.place(step),
            "peak": {"x": x, "y": y},
            "phrase": asdict(self.phrase(step)),
            "words": [
                {"word": word, "saliency": float(share)}
                for word, share in zip(self.words, self.word_saliency[step], strict=True)
            ],
            "regions": _rounded(self.regions[step]),
        }


def _rounded(grid: Floats) -> list[list[float]]:
    return [[round(float(share), 6) for share in row] for row in grid]


@torch.no_grad()
def explain(
    matcher: Matcher,
    features: ImageFeatures,
    sentences: Sequence[str],
    pairs: Sequence[tuple[int, int]] | None = None,
    *,
    names: Sequence[str] | None = None,
    photos: Sequence[Image.Image] | None = None,
) -> list[Explanation]:
    """Explain pairs of (image, sentence) positions; without `pairs`, image k with sentence k."""
    if not matcher.attends:
        variant = getattr(matcher.config, "variant", None)
        which = f"{matcher.kind} of the variant {variant}" if variant else matcher.kind
        raise InputError(f"a matcher of kind {which} has no attention: it cannot show where it looked")
    if pairs is None:
        if len(features) != len(sentences):
            raise InputError(
                f"{len(features)} images and {len(sentences)} sentences are no pairs: say which to explain"
            )
        pairs = [(k, k) for k in range(len(sentences))]
    with evaluating(matcher):
        # One by one: padding to another sentence's length would give a matcher of a step a word steps too many.
        found = [
            _explain_one(matcher, matcher.encode_images(features.select(slice(image, image + 1))), sentences[sentence])
            for image, sentence in pairs
        ]
    return [
        replace(each, name=names[image] if names else f"photo {image + 1}", photo=photos[image] if photos else None)
        for each, (image, _) in zip(found, pairs, strict=True)
    ]


@torch.no_grad()
def explain_encoded(matcher: Matcher, image: Batch, sentence: str) -> Explanation:
    """Explain one pair whose image the matcher has encoded already; the matcher is in evaluation mode."""
    return _explain_one(matcher, image, sentence)


def _explain_one(matcher: Matcher, one: Batch, sentence: str) -> Explanation:
    found: Saliency = matcher.attend(one, matcher.encode_sentences([sentence]), torch.zeros(1, 2, dtype=torch.long))
    read_as = matcher.read_as([sentence])
    words = [read_as.get(word, word) for word in tokenise(sentence)]
    kept = found.sentence.shape[2]
    side = grid_side(found.image.shape[2])
    unknown = tuple(dict.fromkeys(matcher.vocabulary.encode_words(words, kept).unknown))
    return Explanation(
        sentence=sentence,
        words=tuple(words[:kept]),
        regions=found.image[0].reshape(-1, side, side).float().cpu().numpy(),
        word_saliency=found.sentence[0].float().cpu().numpy(),
        scores=found.scores[0].float().cpu().numpy(),
        unknown=unknown,
        read_as=read_as,
        unread=() if matcher.config.language_model else unknown,
        dropped=len(words) - kept,
        word_maps=None if found.words is None else found.words[0].reshape(-1, side, side).float().cpu().numpy(),
        whole=0.0 if found.whole is None else float(found.whole[0]),
    )


def grid_side(regions: int) -> int:
    """Side of the square that some regions make."""
    side = math.isqrt(regions)
    if side * side != regions:
        raise InputError(f"{regions} regions are not a square grid: where each lies in the photo is not known")
    return side
