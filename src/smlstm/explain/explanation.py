"""The explanation of a pair: at each step, where on the photo and at which words a matcher looked."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from smlstm.errors import InputError
from smlstm.explain.maps import resize_map
from smlstm.matching.batch import Batch, ImageFeatures, Saliency
from smlstm.matching.matcher import Matcher, evaluating
from smlstm.text import tokenise

Floats = NDArray[np.float32]
_ROWS, _COLUMNS = ("upper", "middle", "lower"), ("left", "centre", "right")


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
    dropped: int = 0
    """Words beyond the matcher's limit, cut from the end."""

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

    def top_words(self, step: int, count: int = 2) -> tuple[int, ...]:
        """Places of the words with the most saliency, the first first; equal ones in the order of the sentence."""
        order = np.argsort(-self.word_saliency[step], kind="stable")[:count]
        return tuple(int(place) for place in order)

    def peak(self, step: int) -> tuple[float, float]:
        """Where a step looked most: x and y of the region's middle, as parts of the photo's sides."""
        rows, columns = self.regions.shape[1:]
        row, column = divmod(int(self.regions[step].argmax()), columns)
        return (column + 0.5) / columns, (row + 0.5) / rows

    def is_even(self, step: int) -> bool:
        """Whether a step looked everywhere alike, to a twentieth."""
        return bool(self.even_shares[step].max() < 1.05)

    def place(self, step: int) -> str:
        """Where a step looked most, in words: "upper left", "centre", or "everywhere alike"."""
        if self.is_even(step):
            return "everywhere alike"
        x, y = self.peak(step)
        row, column = _ROWS[min(int(y * 3), 2)], _COLUMNS[min(int(x * 3), 2)]
        return "centre" if (row, column) == ("middle", "centre") else f"{row} {column}"

    def describe(self, step: int) -> str:
        """One sentence on a step, for someone who does not see the picture."""
        top = " and ".join(
            f'"{self.words[place]}" ({self.word_saliency[step, place]:.0%})' for place in self.top_words(step)
        )
        where = "everywhere alike" if self.is_even(step) else f"most at the {self.place(step)} of the photo"
        score = f"the score is then {self.scores[step]:.3f}"
        return f"Step {step + 1}: looks {where}, and most at the words {top}; {score}."

    def to_dict(self) -> dict[str, Any]:
        """As `--json` prints it."""
        return {
            "photo": self.name,
            "sentence": self.sentence,
            "score": float(self.scores[-1]),
            "unknown_words": list(self.unknown),
            "dropped_words": self.dropped,
            "steps": [self._step_dict(step) for step in range(self.steps)],
        }

    def _step_dict(self, step: int) -> dict[str, Any]:
        x, y = self.peak(step)
        return {
            "score": float(self.scores[step]),
            "place": self.place(step),
            "peak": {"x": x, "y": y},
            "top_words": [self.words[place] for place in self.top_words(step)],
            "words": [
                {"word": word, "saliency": float(share)}
                for word, share in zip(self.words, self.word_saliency[step], strict=True)
            ],
            "regions": [[round(float(share), 6) for share in row] for row in self.regions[step]],
        }


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
    words = tokenise(sentence)
    kept = found.sentence.shape[2]
    side = grid_side(found.image.shape[2])
    return Explanation(
        sentence=sentence,
        words=tuple(words[:kept]),
        regions=found.image[0].reshape(-1, side, side).float().cpu().numpy(),
        word_saliency=found.sentence[0].float().cpu().numpy(),
        scores=found.scores[0].float().cpu().numpy(),
        unknown=tuple(dict.fromkeys(matcher.vocabulary.encode(sentence, kept).unknown)),
        dropped=len(words) - kept,
    )


def grid_side(regions: int) -> int:
    """Side of the square that some regions make."""
    side = math.isqrt(regions)
    if side * side != regions:
        raise InputError(f"{regions} regions are not a square grid: where each lies in the photo is not known")
    return side
