"""What was measured of each run, kept in files: ranks, what scoring cost, where it looked.

results/NAME.npz            ranks of every image and caption
results/NAME.json           of which model and images they are, and what they cost
results/NAME.attention.json deletion, insertion, pointing, averaged maps
matrices/NAME.npy           similarities of the variants, for their ensemble and `smlstm evaluate --matrices`

What is there of the very same model and images is not measured again.
"""

import json
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from smlstm.data import Dataset, Record, open_dataset, open_features
from smlstm.errors import InputError
from smlstm.evaluation import Ranks, Result, measure, result_of
from smlstm.evaluation.attention_run import Bar, measure_attention, read_attention_gallery
from smlstm.evaluation.evaluate import Evaluation
from smlstm.evaluation.gallery import Gallery, read_gallery, spoken_records
from smlstm.evaluation.matrices import Sum
from smlstm.evaluation.models import Candidate, files_fingerprint, load_candidates
from smlstm.explain import average_records
from smlstm.files import whole_file, write_whole
from smlstm.reproduce.config import ReproduceConfig
from smlstm.training.folder import RunFolder
from smlstm.training.read_examples import feature_stores, read_examples

ENSEMBLE = "ensemble"
_RANKS = ("annotation", "retrieval", "annotation_images", "retrieval_images")


@dataclass(frozen=True, eq=False)
class Ground:
    """On what everything is measured."""

    dataset: Dataset
    gallery: Gallery
    records: tuple[Record, ...]
    features: Path
    notes: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Measured:
    """One run's numbers, and what they cost."""

    result: Result
    kind: str
    seconds: float
    """To encode both sides and to score all pairs of the split."""
    pairs: int
    parameters: int

    @property
    def pairs_per_second(self) -> float:
        """Of the whole way from features to scores."""
        return self.pairs / max(self.seconds, 1e-9)


def open_ground(config: ReproduceConfig) -> Ground:
    """The split to measure on; training data that cannot be read, or features that are missing, are refused here."""
    read_examples(config.data)
    entry = next((part for part in config.data if part.dev), config.data[0])
    dataset = open_dataset(entry.dataset, entry.split_scheme)
    gallery, records, notes = read_gallery(dataset, config.reproduce.split, config.reproduce.images)
    if len(gallery.keys) < 2:
        raise InputError(f"the {gallery.split} split of {entry.dataset} has one image with captions: two are needed")
    features = feature_stores([entry])[0].dev
    store = open_features(features)
    missing = [key for key in gallery.keys if key not in store]
    if missing:
        raise InputError(
            f"{features} has no features of {len(missing)} of {len(gallery.keys)} {gallery.split} images, the "
            f'first is "{missing[0]}": extract them first'
        )
    return Ground(dataset, gallery, spoken_records(gallery, records), features, tuple(notes))


class Results:
    """The files of one reproduction."""

    def __init__(self, folder: Path, ground: Ground, device: str = "cpu") -> None:
        self._folder, self._ground, self._device = folder, ground, device
        self._cards = folder / "results"
        self._matrices = folder / "matrices"

    def find(self, name: str) -> Measured | None:
        """What was measured of a run's model, as it is now, on these images; None if nothing was."""
        card = _read(self._cards / f"{name}.json")
        return None if card is None or not self._is_current(card["key"], name) else self._load(name, card)

    def find_ensemble(self, members: list[str]) -> Measured | None:
        """What was measured of the sum of these runs, as they are now; None if nothing was."""
        card = _read(self._cards / f"{ENSEMBLE}.json")
        if card is None or card["key"] != self._ensemble_key(members) or not all(map(self.find, members)):
            return None
        return self._load(ENSEMBLE, card)

    def _load(self, name: str, card: dict[str, Any]) -> Measured | None:
        path = self._cards / f"{name}.npz"
        if not path.exists():
            return None
        with np.load(path) as saved:
            ranks = Ranks(*(saved[part] for part in _RANKS))
        result = result_of(name, [ranks])
        return Measured(result, card["kind"], card["seconds"], card["pairs"], card["parameters"])

    def measure(self, name: str, *, keep: bool, show: bool = False) -> None:
        """Score all pairs with a run's model, unless that was done; `keep` its matrix too."""
        candidate = self._candidate(name)
        key = {"gallery": self._ground.gallery.fingerprint, "model": candidate.fingerprint}
        matrix = self._matrices / f"{name}.npy"
        card = _read(self._cards / f"{name}.json")
        if card is not None and card["key"] == key and (matrix.exists() or not keep):
            return
        for rest in self._matrices.glob(f"{name}.*"):
            rest.unlink()
        evaluation = Evaluation.plan(
            [candidate],
            self._ground.dataset,
            self._ground.gallery.split,
            images=len(self._ground.gallery.keys),
            features=self._ground.features,
            save=self._matrices if keep else None,
        )
        begin = time.perf_counter()
        ((_, scores),) = evaluation.score(show=show)
        seconds = time.perf_counter() - begin
        facts = {
            "key": key,
            "kind": candidate.matcher.kind,
            "seconds": seconds,
            "pairs": int(scores.size),
            "parameters": sum(weight.numel() for weight in candidate.matcher.parameters()),
        }
        self._write(name, measure(name, scores, self._ground.gallery.image_of).folds[0], facts)

    def measure_ensemble(self, members: list[str]) -> None:
        """The sum of the members' matrices, the paper's sm-LSTM*."""
        cards = [_read(self._cards / f"{name}.json") or {} for name in members]
        key = self._ensemble_key(members)
        found = _read(self._cards / f"{ENSEMBLE}.json")
        if found is not None and found["key"] == key:
            return
        total = Sum(standardised=False)
        for name in members:
            total.add(np.load(self._matrices / f"{name}.npy", mmap_mode="r"))
        assert total.scores is not None
        facts = {
            "key": key,
            "kind": ENSEMBLE,
            "seconds": sum(card["seconds"] for card in cards),
            "pairs": int(total.scores.size),
            "parameters": sum(card["parameters"] for card in cards),
        }
        self._write(ENSEMBLE, measure(ENSEMBLE, total.scores, self._ground.gallery.image_of).folds[0], facts)

    def find_attention(self, name: str) -> dict[str, Any] | None:
        """Where a run's model, as it is now, looks, as JSON has it; None if that was not measured."""
        card = _read(self._cards / f"{name}.attention.json")
        return None if card is None or not self._is_current(card["key"], name) else card

    def measure_attention(self, name: str, images: int, bar: Bar) -> None:
        """Measure where a run looks, unless that was done."""
        candidate = self._candidate(name)
        key = {"gallery": self._ground.gallery.fingerprint, "model": candidate.fingerprint, "images": images}
        card = _read(self._cards / f"{name}.attention.json")
        if card is not None and card["key"] == key:
            return
        ground = self._ground
        chosen = read_attention_gallery(ground.dataset, ground.gallery.split, min(images, len(ground.gallery.keys)))
        store = open_features(ground.features)
        (found,) = measure_attention([candidate], {candidate.matcher.config.backbone: store}, chosen, bar)
        average = average_records(candidate.matcher, store, ground.records, name=name)
        self._cards.mkdir(parents=True, exist_ok=True)
        content = {"key": key, **found.to_dict(), "average": average.to_dict()}
        write_whole(self._cards / f"{name}.attention.json", json.dumps(content))

    def model_folder(self, name: str) -> Path:
        """Where a run's best model is."""
        return RunFolder(self._folder).stage(name).best_model

    def _is_current(self, key: dict[str, Any], name: str) -> bool:
        """Whether something was measured on these images and of a run's model of today; one that is gone stays."""
        folder = self.model_folder(name)
        same = not folder.exists() or key["model"] == files_fingerprint(folder)
        return same and bool(key["gallery"] == self._ground.gallery.fingerprint)

    def _ensemble_key(self, members: list[str]) -> dict[str, Any]:
        cards = [_read(self._cards / f"{name}.json") or {} for name in members]
        return {"gallery": self._ground.gallery.fingerprint, "members": [card.get("key") for card in cards]}

    def _candidate(self, name: str) -> Candidate:
        (candidate,) = load_candidates([self.model_folder(name)], self._device)
        return replace(candidate, name=name)

    def _write(self, name: str, ranks: Ranks, facts: dict[str, Any]) -> None:
        self._cards.mkdir(parents=True, exist_ok=True)
        card = self._cards / f"{name}.json"
        with whole_file(self._cards / f"{name}.npz") as file:
            np.savez(file, **{field: getattr(ranks, field) for field in _RANKS})
            # The card last: it says that the ranks are those of this model.
            card.unlink(missing_ok=True)
        write_whole(card, json.dumps(facts, indent=2))


def _read(path: Path) -> dict[str, Any] | None:
    try:
        content: dict[str, Any] = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return content
