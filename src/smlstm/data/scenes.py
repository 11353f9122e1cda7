"""Composed scenes: drawn pictures with known objects at known places, and sentences that name them.

They stand in for photos where the truth must be known: does a model learn at all, and does its attention look
at the object that a word names? Within one scene no two objects share a colour or a shape, so a colour or a shape
always names one object.
"""

import itertools
import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from PIL import Image

from smlstm.data.drawing import BACKGROUNDS, COLOURS, SHAPES, draw_background, draw_shape
from smlstm.errors import InputError

Pixels = npt.NDArray[np.float32]

# Sides of an object as parts of the picture's side.
_SIZES = {"small": (0.15, 0.19), "large": (0.25, 0.31)}
_GAP = 0.03


@dataclass(frozen=True)
class SceneObject:
    """One drawn object and where it is."""

    colour: str
    shape: str
    size: str
    box: tuple[int, int, int, int]
    """Left, top, right and bottom in pixels; right and bottom are the first pixels outside."""

    @property
    def words(self) -> tuple[str, str]:
        """The words that name this object and no other of its scene."""
        return self.colour, self.shape

    @property
    def centre(self) -> tuple[float, float]:
        """Middle of the box, x and y in pixels."""
        left, top, right, bottom = self.box
        return (left + right) / 2, (top + bottom) / 2


@dataclass(frozen=True)
class Scene:
    """A picture, what is on it, and several sentences each of which names all of it."""

    picture: Image.Image
    objects: tuple[SceneObject, ...]
    background: str
    captions: tuple[str, ...]


def compose(
    seed: int, count: int, *, size: int = 224, objects: Sequence[int] = (2, 3), captions: int = 5
) -> list[Scene]:
    """Draw `count` scenes of `size` x `size` pixels; equal seeds give equal scenes on every machine.

    Scene i depends on the seed and on i alone: a longer list begins with the shorter one. `objects` are the
    numbers of objects to choose from, `captions` the number of different sentences a scene.
    """
    if size < 32:
        raise InputError(f"a scene of {size} pixels is too small to draw in: use 32 or more")
    if not objects or min(objects) < 1 or max(objects) > 4:
        raise InputError(f"scenes have 1 to 4 objects, not {tuple(objects)}")
    if not 1 <= captions <= 5:
        raise InputError(f"a scene has 1 to 5 captions (a single object has no more different ones), not {captions}")
    return [_compose_one(f"{seed}/{number}", size, tuple(objects), captions) for number in range(count)]


def _compose_one(seed: str, size: int, numbers: tuple[int, ...], captions: int) -> Scene:
    rng = random.Random(seed)
    placed = _place(rng, rng.choice(numbers), size)
    background = rng.choice(BACKGROUNDS)
    noise = np.random.default_rng(rng.getrandbits(63))
    picture = draw_background(background, size, noise)
    for thing in placed:
        draw_shape(picture, thing.shape, thing.colour, thing.box, rng)
    sentences = list(dict.fromkeys(_sentences(placed, background, rng)))
    return Scene(picture, tuple(placed), background, tuple(sentences[:captions]))


def _place(rng: random.Random, count: int, size: int) -> list[SceneObject]:
    colours, shapes = rng.sample(list(COLOURS), count), rng.sample(SHAPES, count)
    while True:
        placed: list[SceneObject] = []
        for colour, shape in zip(colours, shapes, strict=True):
            for _ in range(50):
                kind = rng.choice(sorted(_SIZES))
                side = round(rng.uniform(*_SIZES[kind]) * size)
                left, top = rng.randint(1, size - side - 1), rng.randint(1, size - side - 1)
                box = (left, top, left + side, top + side)
                if all(_apart(box, other.box, _GAP * size) for other in placed):
                    placed.append(SceneObject(colour, shape, kind, box))
                    break
        if len(placed) == count:
            return placed


def _apart(one: tuple[int, int, int, int], other: tuple[int, int, int, int], gap: float) -> bool:
    return one[2] + gap <= other[0] or other[2] + gap <= one[0] or one[3] + gap <= other[1] or other[3] + gap <= one[1]


def _sentences(things: Sequence[SceneObject], background: str, rng: random.Random) -> list[str]:
    """Write sentences, each template once before any comes again with the objects in another order."""
    orders = list(itertools.permutations(things))
    rng.shuffle(orders)
    rounds = [_templates(order, background) for order in orders]
    templates = list(range(len(rounds[0])))
    rng.shuffle(templates)
    # Every template starts at another order, so that the first object named differs between neighbours.
    turns = range(len(orders))
    return [rounds[(turn + place) % len(orders)][t] for turn in turns for place, t in enumerate(templates)]


def _templates(order: Sequence[SceneObject], background: str) -> list[str]:
    plain = [_name(thing, sized=False) for thing in order]
    sized = [_name(thing, sized=True) for thing in order]
    sentences = [
        _and(plain),
        f"{_and(plain)} on {background}",
        f"on {background} there is {_and(sized)}",
        _and([f"the {thing.shape} is {thing.colour}" for thing in order]),
        f"a picture of {_and(sized)}",
    ]
    if len(order) > 1:
        relation = _relation(order[0], order[1])
        sentences += [
            _and([f"{plain[0]} {relation} {sized[1]}", *plain[2:]]),
            _and([f"{sized[0]} is {relation} {plain[1]}", *plain[2:]]),
            _and([f"{relation} {plain[1]} there is {plain[0]}", *sized[2:]]),
        ]
    return sentences


def _name(thing: SceneObject, *, sized: bool) -> str:
    words = f"{thing.size} {thing.colour} {thing.shape}" if sized else f"{thing.colour} {thing.shape}"
    return f"{'an' if words[0] in 'aeiou' else 'a'} {words}"


def _and(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def _relation(one: SceneObject, other: SceneObject) -> str:
    across, down = one.centre[0] - other.centre[0], one.centre[1] - other.centre[1]
    if abs(across) > abs(down):
        return "left of" if across < 0 else "right of"
    return "above" if down < 0 else "below"


def patch_features(pictures: Sequence[Image.Image], grid: int = 7, width: int = 256) -> tuple[Pixels, Pixels]:
    """Describe pictures without a trained network: regions (B x grid² x width) and their mean (B x width).

    Each cell of the grid sees a window twice its side: mean colours and histograms of edge directions, 4 x 4 of
    each, through a fixed random projection and a ReLU, standardised. For tests only: a linear probe on the cell
    of an object's centre tells its colour (95 in 100) and its shape (84 in 100), eight of each.
    """
    side = grid * 16
    regions = np.stack([_describe(picture.convert("RGB").resize((side, side)), grid) for picture in pictures])
    rng = np.random.default_rng(20170721)
    projection = rng.standard_normal((regions.shape[-1], width), dtype=np.float32) / np.sqrt(regions.shape[-1])
    projected = np.maximum(regions @ projection.astype(np.float32), 0.0)
    centred = projected - projected.mean(axis=-1, keepdims=True)
    standard = (centred / (centred.std(axis=-1, keepdims=True) + 1e-6)).astype(np.float32)
    return standard, standard.mean(axis=1)


def _describe(picture: Image.Image, grid: int, directions: int = 8) -> Pixels:
    pixels = np.asarray(picture, dtype=np.float32) / 127.5 - 1.0  # side, side, 3
    steps = [np.gradient(pixels, axis=axis) for axis in (0, 1)]
    strongest = (np.abs(steps[0]) + np.abs(steps[1])).argmax(axis=-1)[..., None]
    down, across = (np.take_along_axis(step, strongest, axis=-1)[..., 0] for step in steps)
    strength, angle = np.hypot(down, across), np.arctan2(down, across) % np.pi
    bins = np.minimum((angle / np.pi * directions).astype(int), directions - 1)
    edges = np.where(bins[..., None] == np.arange(directions), strength[..., None], 0.0)
    channels = np.concatenate([pixels, 5.0 * edges], axis=-1)
    blocks = channels.reshape(grid * 2, 8, grid * 2, 8, -1).mean(axis=(1, 3))  # 8 x 8 pixels each
    padded = np.pad(blocks, ((1, 1), (1, 1), (0, 0)), mode="edge")
    windows = [
        padded[2 * row : 2 * row + 4, 2 * column : 2 * column + 4].reshape(-1)
        for row in range(grid)
        for column in range(grid)
    ]
    return np.stack(windows).astype(np.float32)
