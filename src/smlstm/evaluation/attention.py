"""Is the attention right? On composed scenes the answer is known: the pointing game.

The place of every named object is known there. Of the steps whose two strongest words name an object, on how many is
the strongest region on that object, and how much of the saliency? A region is on an object if its middle lies in the
object's box; the region that the box covers most always is. Beside it stands what one would get without any sense
of the words:

    chance      the strongest region is any region
    centre      it is the middle of the picture (for shares: a Gaussian there, a quarter of the side wide)
    any object  it is on an object, but on any of those in the scene
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from smlstm.errors import InputError
from smlstm.evaluation.intervals import Interval
from smlstm.matching.batch import ImageFeatures
from smlstm.matching.matcher import Matcher, evaluating
from smlstm.text import tokenise

Floats = NDArray[np.float64]
Done = Callable[[int, int], None]
"""Told how many photos are done, of how many."""


class PlacedObject(Protocol):
    """An object of a scene, as `smlstm.data.scenes` composes them."""

    @property
    def words(self) -> tuple[str, ...]:
        """The words that name it."""

    @property
    def box(self) -> tuple[int, int, int, int]:
        """Left, top, right and bottom in pixels."""


class PlacedScene(Protocol):
    """A scene with its objects and sentences."""

    @property
    def objects(self) -> Sequence[PlacedObject]:
        """What is on it."""

    @property
    def captions(self) -> Sequence[str]:
        """Sentences that name what is on it."""

    @property
    def picture(self) -> Any:
        """Its `size` is (width, height) in pixels."""


@dataclass(frozen=True)
class Pointed:
    """One step of one pair: did it look at what its words name?"""

    scene: int
    step: int
    hit: float
    inside: float
    chance: float
    centre: float
    centre_inside: float
    any_object: float


@dataclass(frozen=True)
class Pointing:
    """The pointing game over all steps that name an object; all parts of 1, intervals over scenes."""

    hits: Interval
    chance: float
    """Also what `inside` would be by chance: the objects' share of the regions."""
    centre: float
    any_object: float
    inside: Interval
    centre_inside: float
    naming: float
    """Steps whose strongest words name an object, of all steps; the others are not counted."""
    hits_by_step: tuple[float | None, ...]
    steps: int
    scenes: int

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return asdict(self)


def object_regions(box: tuple[int, int, int, int], size: tuple[int, int], side: int) -> NDArray[np.bool_]:
    """Which regions of a grid over a picture of (width, height) are on a box; side * side."""
    left, top, right, bottom = (edge * side / length for edge, length in zip(box, (*size, *size), strict=True))
    cells = np.arange(side)
    across = np.clip(np.minimum(cells + 1, right) - np.maximum(cells, left), 0, None)
    down = np.clip(np.minimum(cells + 1, bottom) - np.maximum(cells, top), 0, None)
    covered = np.outer(down, across).reshape(-1)
    middles = cells + 0.5
    within = np.outer((top <= middles) & (middles < bottom), (left <= middles) & (middles < right)).reshape(-1)
    within[covered.argmax()] = True
    on: NDArray[np.bool_] = within
    return on


def centre_map(side: int) -> Floats:
    """A Gaussian in the middle of a grid, a quarter of its side wide; sums to 1."""
    distance = (np.arange(side) + 0.5) / side - 0.5
    profile = np.exp(-(distance**2) / (2 * 0.25**2))
    gaussian = np.outer(profile, profile).reshape(-1)
    return np.asarray(gaussian / gaussian.sum(), dtype=np.float64)


def point(
    regions: Floats, saliency: Floats, words: Sequence[str], scene: PlacedScene, *, number: int = 0, top: int = 2
) -> list[Pointed]:
    """Judge each step of one pair that names an object: maps T x I over regions and T x J over words."""
    side = round(regions.shape[1] ** 0.5)
    if side * side != regions.shape[1]:
        raise InputError(f"{regions.shape[1]} regions are not a square grid: where each lies is not known")
    places = [object_regions(each.box, scene.picture.size, side) for each in scene.objects]
    central = centre_map(side)
    found = []
    for step, (p, q) in enumerate(zip(regions, saliency, strict=True)):
        strongest = {words[place] for place in np.argsort(-q, kind="stable")[:top]}
        named = [bool(strongest.intersection(each.words)) for each in scene.objects]
        if not any(named):
            continue
        on = np.logical_or.reduce([place for place, wanted in zip(places, named, strict=True) if wanted])
        found.append(
            Pointed(
                scene=number,
                step=step,
                hit=_peak_on(p, on),
                inside=float(p[on].sum() / p.sum()),
                chance=float(on.mean()),
                centre=_peak_on(central, on),
                centre_inside=float(central[on].sum()),
                any_object=float(np.mean(named)),
            )
        )
    return found


def _peak_on(p: Floats, on: NDArray[np.bool_]) -> float:
    """1 if the strongest region is on an object; several equally strong ones share."""
    peaks = p >= p.max() * (1 - 1e-9)
    return float(on[peaks].mean())


@torch.no_grad()
def measure_pointing(
    matcher: Matcher, scenes: Sequence[PlacedScene], features: ImageFeatures, *, progress: Done | None = None
) -> Pointing:
    """Play the pointing game on scenes, each with all of its sentences."""
    if len(scenes) != len(features):
        raise InputError(f"there are {len(scenes)} scenes, but features of {len(features)}")
    found: list[Pointed] = []
    steps = total = 0
    with evaluating(matcher):
        images = matcher.encode_images(features)
        for number, scene in enumerate(scenes):
            for caption in scene.captions:
                # One by one: a matcher of a step a word takes as many steps as the longest sentence of a batch.
                seen = matcher.attend(images, matcher.encode_sentences([caption]), torch.tensor([[number, 0]]))
                maps = (seen.image[0].double().cpu().numpy(), seen.sentence[0].double().cpu().numpy())
                found += point(*maps, tokenise(caption)[: maps[1].shape[1]], scene, number=number)
                steps, total = max(steps, len(maps[0])), total + len(maps[0])
            if progress is not None:
                progress(number + 1, len(scenes))
    return summarise_pointing(found, steps, total)


def summarise_pointing(found: Sequence[Pointed], steps: int, total: int, *, seed: int = 0) -> Pointing:
    """Gather judged steps; `total` counts also those that named nothing."""
    if not found:
        raise InputError("no step's strongest words name an object: there is nothing to point at")
    table = np.array([[e.hit, e.inside, e.chance, e.centre, e.centre_inside, e.any_object] for e in found])
    means = table.mean(0)
    scenes, group = np.unique([each.scene for each in found], return_inverse=True)
    counts = np.bincount(group).astype(float)
    sums = [np.bincount(group, weights=table[:, column]).astype(float) for column in (0, 1)]
    hits, inside = (bootstrap_ratio(each, counts, seed=seed) for each in sums)
    by_step = [[each.hit for each in found if each.step == step] for step in range(steps)]
    return Pointing(
        hits=hits,
        chance=float(means[2]),
        centre=float(means[3]),
        any_object=float(means[5]),
        inside=inside,
        centre_inside=float(means[4]),
        naming=len(found) / total,
        hits_by_step=tuple(float(np.mean(each)) if each else None for each in by_step),
        steps=len(found),
        scenes=len(scenes),
    )


def bootstrap_ratio(
    sums: Floats, counts: Floats, *, draws: int = 2000, confidence: float = 0.95, seed: int = 0
) -> Interval:
    """A mean over groups of unequal size, and its interval when groups are drawn."""
    chance = np.random.default_rng(seed)
    weights = chance.multinomial(len(sums), np.full(len(sums), 1 / len(sums)), size=draws)
    drawn = (weights @ sums) / (weights @ counts)
    low, high = np.quantile(drawn, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Interval(float(sums.sum() / counts.sum()), float(low), float(high))
