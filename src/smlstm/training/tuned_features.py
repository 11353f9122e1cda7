"""Features of a backbone that an earlier stage tuned, extracted once in the run's folder.

    runs/NAME/features/STAGE-GRID/0                of the first dataset, photos as they are: train and dev
    runs/NAME/features/STAGE-GRID/0-augmented-1    training photos augmented with seed 1

An interrupted extraction goes on where it was. A store of weights that the stage has no more is made anew.
"""

import shutil
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from smlstm.data import FeatureSpec, FeatureStore, Record, open_dataset
from smlstm.data.header import is_store
from smlstm.matching.matcher import Matcher
from smlstm.scoring.progress import Progress
from smlstm.training.data_config import DataConfig
from smlstm.training.read_examples import PhotoStores
from smlstm.training.reading import ReadingStoppedError
from smlstm.training.stopping import Stopping
from smlstm.training.tuning_config import TunedFeaturesConfig
from smlstm.training.watchers import Watcher
from smlstm.vision.backbones import Backbone
from smlstm.vision.extract import Extractor
from smlstm.vision.photo_features import load_backbone_for
from smlstm.vision.views import View


def extract_tuned(
    matcher: Matcher,
    wanted: TunedFeaturesConfig,
    data: Sequence[DataConfig],
    folder: Path,
    *,
    stopping: Stopping,
    watcher: Watcher,
) -> None:
    """Extract what the stores lack of all datasets; stopped before the end, it says so and keeps what it has."""
    backbone = load_backbone_for(matcher.config, matcher.tuned, grid=wanted.grid)
    for number, entry in enumerate(data):
        records = open_dataset(entry.dataset, entry.split_scheme).records
        training = [record for record in records if record.split == "train"]
        dev = [record for record in records if record.split == "dev" and entry.dev]
        for path, view in _stores(wanted, folder, number):
            seen = replace(backbone, view=view)
            title = f"Features of {entry.dataset.name}{view.text.replace(';', ',')}"
            looked_at = training if view.text else [*training, *dev]
            _extract(seen, path, looked_at, title, stopping=stopping, watcher=watcher)


def tuned_stores(wanted: TunedFeaturesConfig, count: int, folder: Path) -> list[PhotoStores]:
    """Where they are, of so many datasets."""
    paths = [[path for path, _ in _stores(wanted, folder, number)] for number in range(count)]
    return [PhotoStores(tuple(each), each[0]) for each in paths]


def _stores(wanted: TunedFeaturesConfig, folder: Path, number: int) -> list[tuple[Path, View]]:
    place = folder / f"{wanted.of}-{wanted.grid or 'grid'}"
    seen = [(place / f"{number}-augmented-{seed}", View(augmented=seed)) for seed in wanted.augmented]
    return [(place / str(number), View()), *seen]


def _extract(
    backbone: Backbone, path: Path, records: Sequence[Record], title: str, *, stopping: Stopping, watcher: Watcher
) -> None:
    spec = FeatureSpec(**backbone.facts)
    if is_store(path):
        with FeatureStore.open(path) as store:
            if store.spec == spec and all(record.key in store for record in records):
                return
            stale = store.spec != spec
        if stale:
            watcher.notice(f"{path} has features of other weights: they are made anew")
            shutil.rmtree(path)
    extractor = Extractor(backbone)
    with FeatureStore.open(path, spec) as store, watcher.scoring(title, "photos") as progress:
        left = [record for record in records if record.key not in store]
        before, began, done = len(records) - len(left), time.monotonic(), 0
        with closing(extractor.extract((record.key, record.path) for record in left)) as batches:
            for batch in batches:
                store.append(batch.keys, batch.regions, batch.context, batch.sources)
                for skipped in batch.skipped:
                    watcher.notice(f"skipped {skipped.path}: {skipped.reason}")
                done += len(batch.keys) + len(batch.skipped)
                if progress is not None:
                    progress(Progress(before + done, len(records), time.monotonic() - began, before))
                if stopping.reason and done < len(left):
                    raise ReadingStoppedError(stopping.reason)
