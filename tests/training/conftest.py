"""A small world on disk: composed scenes as a table of captions and a feature store."""

import csv
from pathlib import Path

import pytest

from smlstm.data import FeatureSpec, FeatureStore
from smlstm.data.scenes import compose, patch_features

GRID, WIDTH = 4, 24


def write_scenes(
    folder: Path,
    *,
    train: int = 96,
    dev: int = 24,
    seed: int = 3,
    grid: int = GRID,
    width: int = WIDTH,
    captions: int = 2,
) -> Path:
    """Write `captions.csv` and `features/` into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    scenes = compose(seed=seed, count=train + dev, size=64, captions=captions)
    regions, context = patch_features([scene.picture for scene in scenes], grid=grid, width=width)
    spec = FeatureSpec("patches", "0" * 64, "scenes", grid * grid, width, width)
    keys = [f"{seed}-{number:05}.png" for number in range(len(scenes))]
    with FeatureStore.open(folder / "features", spec) as store:
        store.append(keys, regions, context)
    with (folder / "captions.csv").open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["path", "caption", "split"])
        for number, (key, scene) in enumerate(zip(keys, scenes, strict=True)):
            table.writerows((key, caption, "train" if number < train else "dev") for caption in scene.captions)
    return folder


@pytest.fixture(scope="session")
def scenes(tmp_path_factory) -> Path:
    return write_scenes(tmp_path_factory.mktemp("scenes") / "scenes")


SIZES = (
    "{ embedding_width = 16, sentence_width = 16, word_width = 16, attention_width = 12, similarity_width = 16, "
    "hidden_width = 12, max_words = 16, dropout = 0.2 }"
)


@pytest.fixture
def recipe(scenes, tmp_path) -> Path:
    """A configuration of two tiny stages."""
    path = tmp_path / "tiny.toml"
    path.write_text(
        f"""
name = "tiny"
[[data]]
dataset = "{scenes / "captions.csv"}"
features = "{scenes / "features"}"
[vocabulary]
minimum_count = 1
[stage.mnlm]
epochs = 2
batch_size = 16
log_steps = 4
model = {{ embedding_width = 16, sentence_width = 16, max_words = 16, dropout = 0.2 }}
[stage.smlstm]
start_from = "mnlm"
epochs = 2
batch_size = 16
log_steps = 4
region_dropout = 0.3
word_dropout = 0.1
model = {SIZES}
""",
        encoding="utf-8",
    )
    return path
