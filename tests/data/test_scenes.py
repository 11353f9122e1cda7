import hashlib

import numpy as np
import pytest

from smlstm.data.drawing import BACKGROUNDS, COLOURS, SHAPES
from smlstm.data.scenes import Scene, SceneObject, compose, patch_features
from smlstm.errors import InputError
from smlstm.text import tokenise


@pytest.fixture(scope="module")
def scenes() -> list[Scene]:
    return compose(7, 160, size=112)


def test_equal_seeds_give_equal_scenes_whatever_the_count(scenes: list[Scene]) -> None:
    again = compose(7, 3, size=112)
    for one, other in zip(again, scenes, strict=False):
        assert (one.objects, one.captions, one.background) == (other.objects, other.captions, other.background)
        assert one.picture.tobytes() == other.picture.tobytes()
    assert compose(8, 1, size=112)[0].picture.tobytes() != scenes[0].picture.tobytes()


def test_scenes_are_the_same_on_every_machine() -> None:
    text = repr([(scene.objects, scene.background, scene.captions) for scene in compose(1, 20)])
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == "9a308deffb2db312"


def test_objects_lie_apart_inside_the_picture_and_anywhere_on_it(scenes: list[Scene]) -> None:
    for scene in scenes:
        assert scene.picture.size == (112, 112)
        assert len(scene.objects) in (2, 3)
        covered = np.zeros((112, 112), int)
        for thing in scene.objects:
            left, top, right, bottom = thing.box
            assert 0 <= left < right <= 112
            assert 0 <= top < bottom <= 112
            covered[top:bottom, left:right] += 1
        assert covered.max() == 1
    centres = np.array([thing.centre for scene in scenes for thing in scene.objects]) / 112
    counts = np.histogram2d(*centres.T, bins=4, range=[[0.1, 0.9]] * 2)[0]
    assert (counts > 0).all()


def test_a_word_names_one_object_and_every_caption_names_them_all(scenes: list[Scene]) -> None:
    for scene in scenes:
        words = [word for thing in scene.objects for word in thing.words]
        assert len(set(words)) == len(words) == 2 * len(scene.objects)
        assert len(set(scene.captions)) == 5
        for caption in scene.captions:
            tokens = tokenise(caption)
            assert all(tokens.count(word) == 1 for word in words)
            named = set(tokens) & (set(COLOURS) | set(SHAPES))
            assert named == set(words)


def test_the_whole_palette_is_used(scenes: list[Scene]) -> None:
    things = [thing for scene in scenes for thing in scene.objects]
    assert {thing.colour for thing in things} == set(COLOURS)
    assert {thing.shape for thing in things} == set(SHAPES)
    assert {thing.size for thing in things} == {"small", "large"}
    assert {scene.background for scene in scenes} == set(BACKGROUNDS)


def test_relations_are_true(scenes: list[Scene]) -> None:
    seen = 0
    for scene in scenes:
        for caption in scene.captions:
            for words, axis, sign in (("left of", 0, -1), ("right of", 0, 1), ("above", 1, -1), ("below", 1, 1)):
                before, found, after = caption.partition(words)
                if found and before:  # "a red circle above a small blue star"
                    one, other = (_first_named(scene, tokenise(part)) for part in (before, after))
                    assert sign * (one.centre[axis] - other.centre[axis]) > 0
                    seen += 1
    assert seen > 50


def _first_named(scene: Scene, tokens: list[str]) -> SceneObject:
    return next(thing for token in tokens for thing in scene.objects if thing.shape == token)


def test_an_object_has_its_colour_where_its_box_is(scenes: list[Scene]) -> None:
    for scene in scenes:
        pixels = np.asarray(scene.picture, dtype=float)
        for thing in scene.objects:
            left, top, right, bottom = thing.box
            inside = pixels[top:bottom, left:right].reshape(-1, 3)
            distance = np.abs(inside - COLOURS[thing.colour]).max(axis=1)
            assert (distance <= 13).mean() > 0.2  # a small star fills about a quarter of its box


def test_patches_tell_colours_and_shapes_linearly() -> None:
    size, grid = 224, 7
    scenes = compose(1, 320)
    regions, context = patch_features([scene.picture for scene in scenes], grid)
    assert regions.shape == (320, 49, 256)
    assert context.shape == (320, 256)
    assert regions.dtype == context.dtype == np.float32
    cells, colours, shapes, train = [], [], [], []
    for number, scene in enumerate(scenes):
        for thing in scene.objects:
            x, y = (int(place * grid / size) for place in thing.centre)
            cells.append(regions[number, y * grid + x])
            colours.append(list(COLOURS).index(thing.colour))
            shapes.append(SHAPES.index(thing.shape))
            train.append(number < 240)
    inputs = np.column_stack([cells, np.ones(len(cells))])
    training = np.array(train)
    for labels, wanted in ((np.array(colours), 0.8), (np.array(shapes), 0.6)):
        known = inputs[training]
        targets = np.eye(8)[labels[training]]
        weights = np.linalg.solve(known.T @ known + 10 * np.eye(known.shape[1]), known.T @ targets)
        right = (inputs[~training] @ weights).argmax(axis=1) == labels[~training]
        assert right.mean() > wanted


def test_impossible_scenes_are_refused() -> None:
    with pytest.raises(InputError, match="8 pixels is too small"):
        compose(1, 1, size=8)
    with pytest.raises(InputError, match="1 to 4 objects"):
        compose(1, 1, objects=(5,))
    assert len(compose(1, 2, objects=(1,), captions=2)[0].captions) == 2
