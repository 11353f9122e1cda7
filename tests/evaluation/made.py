"""A small world to evaluate in: drawn scenes as photos, captions and features, and tiny models saved beside them."""

import csv
from pathlib import Path

import numpy as np
import torch

from smlstm.data import FeatureSpec, FeatureStore
from smlstm.data.scenes import compose, patch_features
from smlstm.matching.matcher import Matcher
from smlstm.model import MNLM, SMLSTM, MNLMConfig, SMLSTMConfig
from smlstm.text import Vocabulary

GRID, WIDTH = 3, 8
SPEC = FeatureSpec("patches", "0" * 64, "scenes", GRID * GRID, WIDTH, WIDTH)
WORDS = ["a", "the", "red", "green", "blue", "yellow", "square", "circle", "triangle", "star", "on", "left", "right"]


def write_scenes(folder: Path, *, train: int = 4, dev: int = 12, captions: int = 2, photos: bool = False) -> Path:
    """Write `captions.csv`, `features/` of all images and, if wanted, the photos."""
    folder.mkdir(parents=True, exist_ok=True)
    scenes = compose(seed=5, count=train + dev, size=64, captions=captions)
    keys = [f"{number:03}.png" for number in range(len(scenes))]
    with FeatureStore.open(folder / "features", SPEC) as store:
        store.append(keys, *patch_features([scene.picture for scene in scenes], grid=GRID, width=WIDTH))
    with (folder / "captions.csv").open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["path", "caption", "split"])
        for number, (key, scene) in enumerate(zip(keys, scenes, strict=True)):
            table.writerows((key, caption, "train" if number < train else "dev") for caption in scene.captions)
            if photos:
                scene.picture.save(folder / key)
    return folder


def save_mnlm(folder: Path, seed: int = 0, **changes: object) -> Path:
    fields = {"region_width": WIDTH, "context_width": WIDTH, "backbone": "patches", "embedding_width": 6}
    torch.manual_seed(seed)
    return _save(MNLM(MNLMConfig(**{**fields, "sentence_width": 10, **changes}), Vocabulary.build(WORDS)), folder)


def save_smlstm(folder: Path, seed: int = 0, **changes: object) -> Path:
    sizes = {"word_width": 6, "sentence_width": 7, "attention_width": 8, "similarity_width": 5, "hidden_width": 6}
    fields = {"region_width": WIDTH, "context_width": WIDTH, "backbone": "patches", "embedding_width": 6}
    torch.manual_seed(seed)
    return _save(SMLSTM(SMLSTMConfig(**{**fields, **sizes, **changes}), Vocabulary.build(WORDS)), folder)


def _save(matcher: Matcher, folder: Path) -> Path:
    matcher.save(folder)
    return folder


def noisy(images: int, captions: int, signal: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Scores in which the right pairs stand out by `signal`, and the image of each caption."""
    generator = np.random.default_rng(seed)
    image_of = np.repeat(np.arange(images), captions)
    scores = generator.normal(size=(images, len(image_of))).astype(np.float32)
    scores[image_of, np.arange(len(image_of))] += signal
    return scores, image_of
