"""Is the attention right? On real photos, what it looks at must matter: deletion and insertion.

Regions of real photos are removed in the order of their saliency, or in random order, and the pair is scored again.
If attention finds what matters, the score falls faster (deletion), and rises faster when regions are put back into an
empty image (insertion). The global context stays: it says nothing about places.

A removed region becomes the `mean` of the image's regions, stretched so that the image's root mean square stays what
it was: matchers divide by it, and a plain mean, being short, would make all regions that are left louder. `zero` has
that flaw, and is there for matchers that do not scale.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from smlstm.errors import InputError
from smlstm.evaluation.attention import Done, bootstrap_ratio
from smlstm.evaluation.intervals import Interval
from smlstm.matching.batch import ImageFeatures
from smlstm.matching.matcher import Matcher, evaluating

Floats = NDArray[np.float64]
Filler = Literal["mean", "zero"]


@dataclass(frozen=True)
class RemovalCurve:
    """Mean scores as regions are removed (or put back), by saliency and at random."""

    by_saliency: tuple[float, ...]
    at_random: tuple[float, ...]
    difference: Interval
    """Area between the curves, above 0 where saliency beats chance; in units of the score."""
    relative: float | None
    """The difference as a part of what all regions together add to the score; None where they add nothing."""


@dataclass(frozen=True)
class Removal:
    """Deletion and insertion over some pairs."""

    parts: tuple[float, ...]
    """Of the regions, removed or put back at each point of a curve."""
    deletion: RemovalCurve
    insertion: RemovalCurve
    pairs: int
    filler: Filler

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return asdict(self)


@torch.no_grad()
def measure_removal(
    matcher: Matcher,
    features: ImageFeatures,
    sentences: Sequence[str],
    *,
    points: int = 10,
    orders: int = 5,
    filler: Filler = "mean",
    seed: int = 0,
    progress: Done | None = None,
) -> Removal:
    """Remove regions of the pairs (image k, sentence k), by saliency and in `orders` random orders."""
    if len(features) != len(sentences) or not sentences:
        raise InputError(f"{len(features)} images and {len(sentences)} sentences are no pairs to measure")
    chance = np.random.default_rng(seed)
    parts = np.linspace(0, 1, points + 1)
    found = []
    with evaluating(matcher):
        for k, sentence in enumerate(sentences):
            others = [chance.permutation(features.regions.shape[1]) for _ in range(orders)]
            one = features.select(slice(k, k + 1))
            found.append(_scores_of_pair(matcher, one, sentence, parts=parts, others=others, filler=filler))
            if progress is not None:
                progress(k + 1, len(sentences))
    scores = np.stack(found)  # P, 2 (deletion, insertion), 1 + orders, points + 1
    whole = scores[:, 0, 0, 0] - scores[:, 1, 0, 0]  # what the regions add to the score
    deletion, insertion = (
        _curve(scores[:, way, 0], scores[:, way, 1:].mean(1), sign, whole, seed) for way, sign in ((0, -1), (1, 1))
    )
    return Removal(tuple(parts.tolist()), deletion, insertion, len(sentences), filler)


def _scores_of_pair(
    matcher: Matcher,
    features: ImageFeatures,
    sentence: str,
    *,
    parts: Floats,
    others: Sequence[NDArray[np.int64]],
    filler: Filler,
) -> Floats:
    """Scores with regions removed and put back, by saliency and in other orders; 2, 1 + others, parts."""
    said = matcher.encode_sentences([sentence])
    seen = matcher.attend(matcher.encode_images(features), said, torch.zeros(1, 2, dtype=torch.long))
    saliency = seen.image[0].double().mean(0).cpu().numpy()  # I, over all steps
    regions = features.regions[0].float()  # I, F
    count = len(saliency)
    ranked = [np.argsort(-saliency, kind="stable"), *others]
    changed = []
    for keep_first in (False, True):
        for order in ranked:
            for part in parts:
                kept = np.zeros(count, np.bool_)
                cut = round(part * count)
                kept[order[:cut] if keep_first else order[cut:]] = True
                changed.append(_without(regions, torch.from_numpy(~kept), filler))
    images = ImageFeatures(torch.stack(changed), features.context.float().expand(len(changed), -1))
    scores: Floats = matcher.score(matcher.encode_images(images), said)[:, 0].double().cpu().numpy()
    return scores.reshape(2, len(ranked), len(parts))


def _without(regions: Tensor, removed: Tensor, filler: Filler) -> Tensor:
    """Regions of an image (I, F), some of them removed."""
    if filler == "zero":
        return regions.masked_fill(removed[:, None], 0.0)
    mean = functional.normalize(regions.mean(0), dim=0)  # F
    length = (regions[removed].square().sum() / removed.sum().clamp(min=1)).sqrt()
    return torch.where(removed[:, None], mean * length, regions)


def _curve(by_saliency: Floats, at_random: Floats, sign: int, whole: Floats, seed: int) -> RemovalCurve:
    between = sign * (by_saliency - at_random)  # P, points + 1
    areas = ((between[:, 1:] + between[:, :-1]) / 2).mean(1)  # P
    added = float(whole.mean())
    return RemovalCurve(
        by_saliency=tuple(by_saliency.mean(0).tolist()),
        at_random=tuple(at_random.mean(0).tolist()),
        difference=bootstrap_ratio(areas, np.ones(len(areas)), seed=seed),
        relative=float(areas.mean()) / added if added > 0 else None,
    )
