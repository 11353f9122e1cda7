"""Does attention look where the words are? The pointing game on phrases whose boxes people have drawn.

A phrase is asked twice: alone, as if it were the sentence, and within its caption. Alone, its map is the mean of the
steps' maps p_t; within a caption each step counts by how much of its q_t lies on the phrase's words. A hit: the middle
of the map's strongest region lies in one of the phrase's boxes. Beside it stand

    inside    the share of the map that lies in the boxes (regions whose middle does)
    found     phrases whose box is found: the box around the strongest region and what is joined to it at half its
              strength or more overlaps the box around the phrase's boxes by half of their union
    chance    the share of the photo that the boxes cover: any region, any share
    centre    a peak in the middle of the photo
    plain     no attention at all: the cosine of phrase and region in an MNLM's joint space; also smoothed (each region
              with its eight neighbours), times the region's length, and both

Intervals are 95 %, photos drawn again and again: phrases of a photo are not independent.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from smlstm.data.entities import PhrasedPhoto
from smlstm.errors import InputError
from smlstm.evaluation.attention import bootstrap_ratio
from smlstm.evaluation.intervals import Interval
from smlstm.matching.batch import ImageFeatures
from smlstm.matching.matcher import Matcher, evaluating
from smlstm.model import MNLM, SMLSTM
from smlstm.model.image import scaled
from smlstm.text import tokenise

Floats = NDArray[np.float64]
Read = Callable[[Sequence[int]], ImageFeatures]
"""Features of photos by their place among all."""
Done = Callable[[int, int], None]
_TOGETHER = 32
_SIZES = ((0.05, "under 5 % of the photo"), (0.25, "5 to 25 %"), (1.01, "25 % and more"))


@dataclass(frozen=True)
class Asked:
    """A phrase with boxes: which photo, which words, where."""

    photo: int
    caption: str
    first: int
    last: int
    text: str
    kind: str
    on: NDArray[np.bool_]
    """Regions whose middle is in a box."""
    around: tuple[float, float, float, float]
    """The box around all of its boxes, as shares of width and height."""
    covered: float
    """The share of the photo that its boxes cover."""
    central: bool


@dataclass(frozen=True)
class MapScores:
    """How good one kind of map is, over all phrases."""

    name: str
    hits: Interval
    inside: Interval | None
    found: Interval | None
    by_kind: dict[str, float]
    by_size: dict[str, float]


@dataclass(frozen=True)
class PhrasePointing:
    """All kinds of map of one model."""

    maps: tuple[MapScores, ...]
    chance: float
    centre: float
    phrases: int
    photos: int
    captions_covered: float | None
    """Of a caption's phrases, the share at which some step points: it names the phrase, and its peak is on it."""

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return asdict(self)


def asked_phrases(photos: Sequence[PhrasedPhoto], side: int) -> list[Asked]:
    """All phrases with boxes."""
    found = []
    for number, photo in enumerate(photos):
        width, height = photo.size
        for caption in photo.captions:
            for phrase in caption.phrases:
                if not phrase.boxes:
                    continue
                edges = np.array(phrase.boxes, float) / (width, height, width, height)
                around = (*edges[:, :2].min(0), *edges[:, 2:].max(0))
                central = bool(((edges[:, :2] <= 0.5) & (edges[:, 2:] >= 0.5)).all(1).any())
                fine = photo.regions_of(phrase, 50)
                found.append(
                    Asked(
                        number,
                        caption.text,
                        phrase.first,
                        phrase.last,
                        phrase.text,
                        phrase.kinds[0],
                        photo.regions_of(phrase, side),
                        tuple(map(float, around)),  # type: ignore[arg-type]
                        float(fine.mean()),
                        central,
                    )
                )
    if not found:
        raise InputError("no phrase of these photos has a box: there is nothing to point at")
    return found


@torch.no_grad()
def measure_phrases(
    matcher: Matcher, photos: Sequence[PhrasedPhoto], read: Read, *, progress: Done | None = None, seed: int = 0
) -> PhrasePointing:
    """Play the pointing game with every phrase that has a box."""
    first = read([0])
    side = round(first.regions.shape[1] ** 0.5)
    if side * side != first.regions.shape[1]:
        raise InputError(f"{first.regions.shape[1]} regions are not a square grid: where each lies is not known")
    asked = asked_phrases(photos, side)
    maps: dict[str, Floats] = {}
    covered: list[float] = []
    with evaluating(matcher):
        for start in range(0, len(photos), _TOGETHER):
            numbers = list(range(start, min(start + _TOGETHER, len(photos))))
            own = [place for place, each in enumerate(asked) if start <= each.photo < start + _TOGETHER]
            if own:
                features = read(numbers)
                for name, found in _maps(matcher, features, [asked[place] for place in own], start, covered):
                    maps.setdefault(name, np.zeros((len(asked), side * side)))[own] = found
            if progress is not None:
                progress(numbers[-1] + 1, len(photos))
    scores = tuple(_judge(name, found, asked, side, seed) for name, found in maps.items())
    return PhrasePointing(
        scores,
        chance=float(np.mean([each.covered for each in asked])),
        centre=float(np.mean([each.central for each in asked])),
        phrases=len(asked),
        photos=len(photos),
        captions_covered=float(np.mean(covered)) if covered else None,
    )


def _maps(
    matcher: Matcher, features: ImageFeatures, asked: Sequence[Asked], offset: int, covered: list[float]
) -> Iterator[tuple[str, Floats]]:
    if matcher.attends:
        yield from _alone(matcher, features, asked, offset)
        yield "in its caption", _within(matcher, features, asked, offset, covered)
    plain = _plain(matcher, features, asked, offset)
    if plain is not None:
        cosines, lengths = plain
        yield "plain cosine", cosines.numpy()
        yield "plain, smoothed", _smoothed(cosines).numpy()
        yield "plain, times length", (cosines * lengths).numpy()
        yield "plain, both", _smoothed(cosines * lengths).numpy()


def _alone(
    matcher: Matcher, features: ImageFeatures, asked: Sequence[Asked], offset: int
) -> Iterator[tuple[str, Floats]]:
    """Mean of the steps; and each step, if there are as many for every phrase."""
    images = matcher.encode_images(features)
    mean = np.zeros((len(asked), features.regions.shape[1]))
    steps: dict[int, Floats] = {}
    lengths = np.array([len(tokenise(each.text)) for each in asked])
    counts = set()
    for length in np.unique(lengths):  # a matcher of a step a word takes as many steps as the longest of a batch
        places = [int(place) for place in np.flatnonzero(lengths == length)]
        sentences = matcher.encode_sentences([asked[place].text for place in places])
        pairs = torch.tensor([[asked[place].photo - offset, row] for row, place in enumerate(places)])
        seen = matcher.attend(images, sentences, pairs).image.double().cpu().numpy()  # P, T, I
        mean[places] = seen.mean(1)
        counts.add(seen.shape[1])
        for step in range(min(seen.shape[1], 8)):
            steps.setdefault(step, np.zeros_like(mean))[places] = seen[:, step]
    yield "alone", mean
    if len(counts) == 1 and len(steps) > 1 and matcher.kind == SMLSTM.kind:
        for step, found in steps.items():
            yield f"alone, step {step + 1}", found


def _within(
    matcher: Matcher, features: ImageFeatures, asked: Sequence[Asked], offset: int, covered: list[float]
) -> Floats:
    """Each step counts by how much of its words is the phrase's."""
    images = matcher.encode_images(features)
    found = np.zeros((len(asked), features.regions.shape[1]))
    captions = sorted({(each.photo, each.caption) for each in asked}, key=lambda each: (len(tokenise(each[1])), each))
    members: dict[tuple[int, str], list[int]] = {}
    for place, each in enumerate(asked):
        members.setdefault((each.photo, each.caption), []).append(place)
    for start in range(0, len(captions), 64):
        part = captions[start : start + 64]
        sentences = matcher.encode_sentences([caption for _, caption in part])
        pairs = torch.tensor([[photo - offset, row] for row, (photo, _) in enumerate(part)])
        seen = matcher.attend(images, sentences, pairs)
        p, q = seen.image.double().cpu().numpy(), seen.sentence.double().cpu().numpy()
        for row, key in enumerate(part):
            pointed = 0
            for place in members[key]:
                each = asked[place]
                weights = q[row, :, each.first : each.last].sum(1)  # T
                found[place] = (weights[:, None] * p[row]).sum(0) / max(weights.sum(), 1e-12)
            named = [_named(words, [asked[place] for place in members[key]]) for words in q[row]]
            for number, place in enumerate(members[key]):
                peaks = (regions.argmax() for regions, step in zip(p[row], named, strict=True) if step == number)
                pointed += any(asked[place].on[peak] for peak in peaks)
            covered.append(pointed / len(members[key]))
    return found


def _named(q: Floats, phrases: Sequence[Asked]) -> int | None:
    """Which of a caption's phrases a step names: that with the most of q_t, unless a word of none has more."""
    shares = [float(q[each.first : each.last].sum()) for each in phrases]
    others = q.copy()
    for each in phrases:
        others[each.first : each.last] = 0
    best = int(np.argmax(shares))
    return best if shares[best] >= others.max(initial=0) else None


def _plain(
    matcher: Matcher, features: ImageFeatures, asked: Sequence[Asked], offset: int
) -> tuple[Tensor, Tensor] | None:
    """Cosines of phrases and regions in the joint space of the whole image (P, I), and the regions' lengths there."""
    projection = _projection(matcher)
    if projection is None:
        return None
    regions = scaled(features.regions.to(projection.weight.device, projection.weight.dtype))
    photos = torch.tensor([each.photo - offset for each in asked])
    places = projection(regions)  # M, I, E
    encoded = matcher.encode_sentences([each.text for each in asked])
    said: Tensor = encoded.vectors if isinstance(matcher, MNLM) else encoded.whole  # type: ignore[attr-defined]
    lengths = torch.linalg.vector_norm(places, dim=2)
    cosines = torch.einsum("pie,pe->pi", functional.normalize(places, dim=2)[photos], functional.normalize(said, dim=1))
    return cosines.double().cpu(), lengths[photos].double().cpu()


def _projection(matcher: Matcher) -> torch.nn.Linear | None:
    """How the joint space of whole images sees a region; None where it cannot."""
    projection: torch.nn.Linear | None = None
    if isinstance(matcher, MNLM):
        projection = matcher.image
    elif isinstance(matcher, SMLSTM):
        projection = matcher.image_whole
    if projection is None or matcher.config.context_width != matcher.config.region_width:
        return None
    return projection


def can_point(matcher: Matcher) -> bool:
    """Whether there is any map of a phrase to measure."""
    return matcher.attends or _projection(matcher) is not None


def _smoothed(maps: Tensor) -> Tensor:
    """Each region's mean with its neighbours; P, I."""
    side = round(maps.shape[1] ** 0.5)
    grid = functional.pad(maps.view(-1, 1, side, side), (1, 1, 1, 1), mode="replicate")
    return functional.avg_pool2d(grid, 3, stride=1).flatten(1)


def _judge(name: str, maps: Floats, asked: Sequence[Asked], side: int, seed: int) -> MapScores:
    hits = np.array([float(each.on[row.argmax()]) for row, each in zip(maps, asked, strict=True)])
    _, group = np.unique([each.photo for each in asked], return_inverse=True)
    counts = np.bincount(group).astype(float)

    def interval(values: Floats) -> Interval:
        return bootstrap_ratio(np.bincount(group, weights=values).astype(float), counts, seed=seed)

    shares = found = None
    if not name.startswith("plain"):
        shares = interval(np.array([float(row[each.on].sum()) for row, each in zip(maps, asked, strict=True)]))
        found = interval(np.array([_box_found(row, each, side) for row, each in zip(maps, asked, strict=True)]))
    kinds = np.array([each.kind for each in asked])
    sizes = np.searchsorted([limit for limit, _ in _SIZES], [each.covered for each in asked], side="right")
    return MapScores(
        name,
        interval(hits),
        shares,
        found,
        {str(kind): float(hits[kinds == kind].mean()) for kind in np.unique(kinds)},
        {title: float(hits[sizes == size].mean()) for size, (_, title) in enumerate(_SIZES) if (sizes == size).any()},
    )


def _box_found(row: Floats, each: Asked, side: int) -> float:
    """1 if the box around the peak overlaps that around the phrase's boxes by half of their union."""
    left, top, right, bottom = (edge / side for edge in peak_box(row.reshape(side, side)))
    x0, y0, x1, y1 = each.around
    shared = max(0.0, min(right, x1) - max(left, x0)) * max(0.0, min(bottom, y1) - max(top, y0))
    union = (right - left) * (bottom - top) + (x1 - x0) * (y1 - y0) - shared
    return float(shared >= 0.5 * union)


def peak_box(grid: Floats) -> tuple[int, int, int, int]:
    """The box around the strongest region and all that is joined to it at half its strength; in regions."""
    strong = grid >= grid.max() / 2
    joined = np.zeros_like(strong)
    joined[np.unravel_index(grid.argmax(), grid.shape)] = True
    while True:  # grow by one region each way until nothing is added: as many rounds as the way is long
        wider = np.pad(joined, 1)
        grown = (wider[1:-1, 1:-1] | wider[:-2, 1:-1] | wider[2:, 1:-1] | wider[1:-1, :-2] | wider[1:-1, 2:]) & strong
        if (grown == joined).all():
            break
        joined = grown
    rows, columns = np.flatnonzero(joined.any(1)), np.flatnonzero(joined.any(0))
    return int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1
