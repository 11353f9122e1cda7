"""Composed scenes as a folder: a dataset like any other, with a file that says where each object is.

FOLDER/
  00000.png ...    the pictures
  captions.csv     path, caption, split: what `open_dataset` reads
  scenes.json      the objects of every picture, their words and boxes
  features/        `patch_features` of the pictures, if they were asked for
"""

import csv
import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from smlstm.data.features import FeatureSpec
from smlstm.data.files import read_json
from smlstm.data.records import Record
from smlstm.data.scenes import Scene, SceneObject, compose, patch_features
from smlstm.data.store import FeatureStore
from smlstm.errors import InputError

PLACES = "scenes.json"
_FORMAT = "smlstm-scenes"
_BLOCK = 100


@dataclass(frozen=True)
class SceneSize:
    """What only knows its size, as a picture does: the pixels are not needed to judge where someone looked."""

    size: tuple[int, int]


@dataclass(frozen=True)
class PlacedObjects:
    """A scene without its pixels."""

    picture: SceneSize
    objects: tuple[SceneObject, ...]
    captions: tuple[str, ...]


def write_scenes(
    folder: Path,
    *,
    train: int,
    dev: int,
    seed: int = 1,
    size: int = 224,
    captions: int = 5,
    patches: int | None = None,
) -> None:
    """Draw scenes into a new or empty folder; `patches` also writes patch features on a grid of that side."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder} is not empty: scenes are drawn into a folder of their own")
    scenes = compose(seed, train + dev, size=size, captions=captions)
    keys = [f"{number:05}.png" for number in range(len(scenes))]
    folder.mkdir(parents=True, exist_ok=True)
    for key, scene in zip(keys, scenes, strict=True):
        scene.picture.save(folder / key)
    if patches is not None:
        _write_patches(folder / "features", keys, scenes, patches)
    places = {
        key: {"size": list(scene.picture.size), "objects": [asdict(each) for each in scene.objects]}
        for key, scene in zip(keys, scenes, strict=True)
    }
    content = {"format": _FORMAT, "version": 1, "seed": seed, "scenes": places}
    (folder / PLACES).write_text(json.dumps(content), encoding="utf-8")
    with (folder / "captions.csv").open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["path", "caption", "split"])
        for number, (key, scene) in enumerate(zip(keys, scenes, strict=True)):
            table.writerows((key, caption, "train" if number < train else "dev") for caption in scene.captions)


def _write_patches(folder: Path, keys: list[str], scenes: list[Scene], grid: int) -> None:
    store: FeatureStore | None = None
    try:
        for start in range(0, len(scenes), _BLOCK):
            part = slice(start, start + _BLOCK)
            regions, context = patch_features([scene.picture for scene in scenes[part]], grid=grid)
            if store is None:
                spec = FeatureSpec(
                    "patches", "none", "composed scenes", grid * grid, regions.shape[2], context.shape[1]
                )
                store = FeatureStore.open(folder, spec)
            store.append(keys[part], regions, context)
    finally:
        if store is not None:
            store.close()


def has_places(folder: str | os.PathLike[str]) -> bool:
    """Whether a dataset's folder says where the objects of its pictures are."""
    return (Path(folder) / PLACES).is_file()


def read_places(folder: str | os.PathLike[str], records: Sequence[Record]) -> list[PlacedObjects]:
    """Where the objects of some of a folder's pictures are, with the captions of the records."""
    path = Path(folder) / PLACES
    content = read_json(path)
    if not isinstance(content, dict) or content.get("format") != _FORMAT or content.get("version") != 1:
        raise InputError(f"{path} was not written by `smlstm data scenes`")
    try:
        return [_placed(content["scenes"][record.key], record) for record in records]
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise InputError(f"{path} is damaged ({type(error).__name__}: {error}): draw the scenes again") from None


def _placed(each: dict[str, Any], record: Record) -> PlacedObjects:
    width, height = (int(side) for side in each["size"])
    objects = tuple(
        SceneObject(thing["colour"], thing["shape"], thing["size"], _box(thing["box"])) for thing in each["objects"]
    )
    return PlacedObjects(SceneSize((width, height)), objects, record.captions)


def _box(edges: list[int]) -> tuple[int, int, int, int]:
    left, top, right, bottom = (int(edge) for edge in edges)
    return left, top, right, bottom
