"""The full model learns: composed scenes it has never seen are told apart by their sentences, and the reverse.

The recipe is the one that users have, `configs/scenes.toml`.
"""

import csv
from pathlib import Path

import numpy as np
import pytest

from smlstm.data import FeatureSpec, FeatureStore
from smlstm.data.scenes import Scene, compose, patch_features
from smlstm.training import read_config, train

HELD_OUT, TRAINING = 100, 2500
RECIPE = Path(__file__).parents[2] / "configs" / "scenes.toml"


def named(scene: Scene) -> frozenset[tuple[str, str]]:
    return frozenset(thing.words for thing in scene.objects)


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """Features on disk, held-out scenes first; no training scene shows the same objects as a held-out one."""
    folder = tmp_path_factory.mktemp("scenes")
    scenes = compose(seed=1, count=HELD_OUT + TRAINING, size=112, captions=2)
    held_out = {named(scene) for scene in scenes[:HELD_OUT]}
    scenes = scenes[:HELD_OUT] + [scene for scene in scenes[HELD_OUT:] if named(scene) not in held_out]
    regions, context = patch_features([scene.picture for scene in scenes])
    with FeatureStore.open(
        folder / "features", FeatureSpec("patches", "none", "scenes", *regions.shape[1:], context.shape[1])
    ) as store:
        store.append([f"{number}.png" for number in range(len(scenes))], regions, context)
    return folder, [scene.captions for scene in scenes]


def recall_at_1(world, captions: list[tuple[str, ...]], name: str) -> tuple[float, float]:
    """Train on captions, held-out ones as they are; R@1 both ways among the held-out scenes."""
    folder, _ = world
    table = folder / f"{name}.csv"
    with table.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["path", "caption", "split"])
        for number, sentences in enumerate(captions):
            split = "dev" if number < HELD_OUT else "train"
            rows.writerows((f"{number}.png", sentence, split) for sentence in sentences)
    config = read_config(RECIPE, [f"data.0.dataset={table}", f"data.0.features={folder / 'features'}"])
    best = train(config, folder / name)[-1].best
    assert best is not None
    assert best["dev"]["images"] == HELD_OUT
    return best["dev"]["annotation"]["r1"], best["dev"]["retrieval"]["r1"]


@pytest.mark.slow
def test_full_model_learns_composed_scenes(world):
    annotation, retrieval = recall_at_1(world, world[1], "true")
    assert annotation > 80
    assert retrieval > 80


@pytest.mark.slow
def test_shuffled_captions_teach_nothing(world):
    captions = world[1]
    order = np.random.default_rng(0).permutation(len(captions) - HELD_OUT) + HELD_OUT
    annotation, retrieval = recall_at_1(world, captions[:HELD_OUT] + [captions[k] for k in order], "shuffled")
    # Chance is 1 in 100; the best of all epochs is looked at, so some luck is allowed for.
    assert annotation <= 7
    assert retrieval <= 6
