import numpy as np
import pytest
import torch

from smlstm.data.scenes import compose
from smlstm.errors import InputError
from smlstm.evaluation.attention import bootstrap_ratio, centre_map, measure_pointing, object_regions, point
from smlstm.evaluation.removal import _without, measure_removal
from smlstm.matching.batch import ImageFeatures
from tests.explain.made import WORDS, Known

SIDE = 7
SCENES = compose(seed=3, count=30, size=64, captions=2)


def features_of(scenes) -> ImageFeatures:
    regions = torch.zeros(len(scenes), SIDE * SIDE, len(WORDS))
    for number, scene in enumerate(scenes):
        for thing in scene.objects:
            on = torch.from_numpy(object_regions(thing.box, scene.picture.size, SIDE))
            for word in thing.words:
                regions[number, on, WORDS.index(word)] = 1
    return ImageFeatures(regions, regions.mean(1))


FEATURES = features_of(SCENES)
CAPTIONS = [scene.captions[0] for scene in SCENES]


def test_a_box_has_the_regions_whose_middle_it_holds_and_always_one():
    on = object_regions((10, 20, 30, 40), (40, 40), 4).reshape(4, 4)
    assert np.argwhere(on).tolist() == [[2, 1], [2, 2], [3, 1], [3, 2]]
    assert object_regions((1, 1, 3, 3), (70, 70), 7).sum() == 1
    wide = object_regions((0, 0, 100, 50), (200, 50), 2).reshape(2, 2)
    assert wide.tolist() == [[True, False], [True, False]]


def test_perfect_attention_points_right_every_time_and_stays_inside():
    found = measure_pointing(Known("right"), SCENES, FEATURES)
    assert found.hits.value == found.hits.low == found.hits.high == 1
    assert found.inside.value == pytest.approx(1, abs=1e-6)
    assert found.naming == 1
    assert found.hits_by_step == (1, 1)
    assert found.chance < 0.2
    assert found.steps == 2 * 2 * len(SCENES)


def test_looking_at_the_middle_only_gets_the_centre_baseline():
    found = measure_pointing(Known("centre"), SCENES, FEATURES)
    assert found.hits.value == pytest.approx(found.centre)
    assert found.hits.value < found.any_object


def test_attention_everywhere_else_never_hits_and_random_attention_is_near_chance():
    assert measure_pointing(Known("wrong"), SCENES, FEATURES).hits.value == 0
    found = measure_pointing(Known("random"), SCENES, FEATURES)
    assert found.hits.low <= found.chance <= found.hits.high
    assert found.inside.value == pytest.approx(found.chance, abs=0.03)


def test_an_even_map_gets_chance_exactly():
    even = np.full((1, SIDE * SIDE), 1 / SIDE**2)
    scene = SCENES[0]
    words = ["a", *scene.objects[0].words]
    (found,) = point(even, np.array([[0.1, 0.5, 0.4]]), words, scene)
    assert found.hit == pytest.approx(found.chance)
    assert found.inside == pytest.approx(found.chance)


def test_steps_that_name_nothing_are_not_counted():
    maps = np.full((1, SIDE * SIDE), 1 / SIDE**2)
    assert point(maps, np.array([[0.5, 0.4, 0.1]]), ["there", "is", SCENES[0].objects[0].colour], SCENES[0]) == []


def test_the_centre_map_is_symmetric_and_sums_to_one():
    grid = centre_map(6).reshape(6, 6)
    assert grid.sum() == pytest.approx(1)
    assert np.allclose(grid, grid[::-1]) and np.allclose(grid, grid.T)


@pytest.mark.parametrize("filler", ["mean", "zero"])
def test_removing_what_is_rightly_attended_hurts_more_than_chance(filler):
    found = measure_removal(Known("right"), FEATURES, CAPTIONS, filler=filler)
    assert found.deletion.difference.low > 0
    assert found.insertion.difference.low > 0
    assert found.deletion.by_saliency[0] == found.deletion.at_random[0] == pytest.approx(1)
    assert found.deletion.by_saliency[-1] == pytest.approx(found.insertion.by_saliency[0])
    assert found.insertion.by_saliency[-1] == pytest.approx(1)
    assert found.deletion.relative > 0
    assert len(found.to_dict()["deletion"]["by_saliency"]) == len(found.parts) == 11


@pytest.mark.parametrize("count", [0, 1, 20, 49])
def test_the_mean_filler_leaves_an_images_root_mean_square_as_it_was(count):
    regions = torch.rand(49, 16, generator=torch.Generator().manual_seed(1))
    removed = torch.arange(49) < count
    left = _without(regions, removed, "mean")
    assert float(left.square().mean()) == pytest.approx(float(regions.square().mean()), rel=1e-5)
    assert torch.equal(left[~removed], regions[~removed])


def test_wrong_attention_is_worse_than_chance_and_random_is_level():
    wrong = measure_removal(Known("wrong", steps=6), FEATURES, CAPTIONS)  # as many as a sentence has names
    assert wrong.deletion.difference.high < 0
    level = measure_removal(Known("random"), FEATURES, CAPTIONS)
    assert level.deletion.difference.low < 0 < level.deletion.difference.high


def test_measures_are_repeatable_and_leave_the_matcher_in_its_mode():
    matcher = Known("right").train()
    once, again = (measure_removal(matcher, FEATURES, CAPTIONS, points=4, orders=2) for _ in range(2))
    assert once == again
    assert matcher.training


def test_an_interval_by_groups_weighs_them_by_their_size():
    found = bootstrap_ratio(np.array([10.0, 0.0]), np.array([10.0, 30.0]))
    assert found.value == 0.25
    assert (found.low, found.high) == (0, 1)


def test_what_does_not_fit_is_refused():
    with pytest.raises(InputError, match="30 scenes, but features of 29"):
        measure_pointing(Known(), SCENES, FEATURES.select(slice(0, 29)))
    with pytest.raises(InputError, match="no pairs"):
        measure_removal(Known(), FEATURES, CAPTIONS[:2])
    with pytest.raises(InputError, match="not a square"):
        point(np.ones((1, 5)), np.ones((1, 1)), ["red"], SCENES[0])
