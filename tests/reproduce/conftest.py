"""A whole reproduction on drawn scenes, as small as it can be."""

from pathlib import Path

import pytest

from smlstm.data.scene_folder import write_scenes

SIZES = "embedding_width = 8, sentence_width = 8, max_words = 16"
MORE = "word_width = 8, attention_width = 6, similarity_width = 8, hidden_width = 6"


@pytest.fixture(scope="session")
def scenes(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("reproduce") / "scenes"
    write_scenes(folder, train=24, dev=8, seed=3, size=48, captions=2, patches=3)
    return folder


def write_recipe(path: Path, scenes: Path) -> Path:
    path.write_text(
        f"""
name = "small"
[[data]]
dataset = "{scenes}"
features = "{scenes / "features"}"
[vocabulary]
minimum_count = 1
[stage.mnlm]
epochs = 1
batch_size = 16
log_steps = 1
model = {{ {SIZES} }}
[stage.smlstm]
start_from = "mnlm"
epochs = 2
batch_size = 16
log_steps = 1
checkpoint_seconds = 0
model = {{ {SIZES}, {MORE} }}
[reproduce]
split = "dev"
variants = ["mean", "att", "ctx", "full"]
steps = [1, 3]
lambdas = [1, 100]
modulations = ["gated", "joint"]
comparisons = ["product"]
baselines = ["vse++", "scan"]
attention_images = 4
""",
        encoding="utf-8",
    )
    return path


@pytest.fixture
def recipe(scenes, tmp_path) -> Path:
    return write_recipe(tmp_path / "small.toml", scenes)


@pytest.fixture(scope="session")
def shared_recipe(scenes, tmp_path_factory) -> Path:
    return write_recipe(tmp_path_factory.mktemp("recipe") / "small.toml", scenes)
