"""Where the features of some images come from: a store, precomputed arrays, or the photos themselves.

A plan is made and checked before anything long begins; `complete` then extracts what is missing, once, into the
store that was given or into one in the user's cache. Beside a store in the cache stands of which photos it was made:
where one of them was changed since, it is made anew.
"""

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from smlstm.data import Dataset, Features, FeatureSpec, FeatureStore, Record, open_features
from smlstm.data.header import is_store
from smlstm.errors import InputError, SmlstmError
from smlstm.evaluation.models import Candidate
from smlstm.files import fingerprint, write_whole
from smlstm.user_folders import cache_folder
from smlstm.vision.backbones import Backbone
from smlstm.vision.extract import Extractor, Skipped
from smlstm.vision.photo_features import load_backbone_for

Extracted = Callable[[int, int], None]
"""Told how many photos are done, of how many."""


@dataclass(frozen=True, eq=False)
class FeaturePlan:
    """A store, and the photos whose features it still lacks."""

    where: Path
    spec: FeatureSpec
    missing: tuple[Record, ...] = ()
    backbone: Backbone | None = None
    """What the missing ones are extracted with."""
    made_of: Path | None = None
    """Of a store in the cache: the file that says of which photos it was made."""
    stale: bool = False
    """Whether the store in the cache is of photos that were changed since."""

    def complete(self, progress: Extracted | None = None) -> Features:
        """Extract and store what is missing; a photo that cannot be read is refused by name in the end."""
        if self.backbone is not None:
            if self.stale and self.where.exists():
                shutil.rmtree(self.where)
            if self.made_of is not None:
                _write_stamps(self.made_of, {} if self.stale else _read_stamps(self.made_of), self.missing)
            skipped = _extract(self.backbone, self.where, self.missing, progress)
            if skipped:
                raise InputError(
                    f"{len(skipped)} photos cannot be used, the first is {skipped[0].path}: {skipped[0].reason}; "
                    "mend them or take them out of the dataset (the others are stored)"
                )
        return open_features(self.where)


def plan_features(
    candidates: Sequence[Candidate],
    dataset: Dataset,
    records: Sequence[Record],
    *,
    features: Path | None = None,
    grid: int | None = None,
) -> dict[str, FeaturePlan]:
    """A plan for each backbone that the candidates need; what does not fit together is refused here.

    `features`: a store (read and, if photos are missing in it, continued; created if it does not exist) or
    precomputed arrays; default: those of a precomputed dataset, or else a store in the user's cache.
    `grid`: side of the square of regions of a new store; default: the one a model was trained on.
    """
    if features is None and dataset.name == "precomputed":
        features = dataset.root
    plans: dict[str, FeaturePlan] = {}
    for candidate in candidates:
        name = candidate.matcher.config.backbone
        if name not in plans:
            plans[name] = _plan(candidate, dataset, records, features, grid)
        else:
            candidate.refuse_other_features(plans[name].spec, plans[name].where)
    return plans


def _plan(
    candidate: Candidate, dataset: Dataset, records: Sequence[Record], features: Path | None, grid: int | None
) -> FeaturePlan:
    if features is None:
        backbone = _load(candidate, grid)
        return _plan_cached(candidate, dataset, records, _cached(dataset, backbone), backbone)
    if features.exists() and (is_store(features) or any(features.iterdir() if features.is_dir() else [features])):
        return _continue(candidate, dataset, records, features)
    return _anew(candidate, dataset, records, features, _load(candidate, grid))


def _plan_cached(
    candidate: Candidate, dataset: Dataset, records: Sequence[Record], where: Path, backbone: Backbone
) -> FeaturePlan:
    made_of = where.with_name(f"{where.name}.photos.json")
    known = _read_stamps(made_of)
    there = where.exists() and is_store(where)
    stored = open_features(where) if there else ()
    stale = any(
        record.key in known and record.key in stored and _stamp(record) not in (None, known[record.key])
        for record in records
    )
    if there and not stale:
        plan = _continue(candidate, dataset, records, where)
    else:
        plan = _anew(candidate, dataset, records, where, backbone)
    return replace(plan, made_of=made_of, stale=stale)


def _anew(
    candidate: Candidate, dataset: Dataset, records: Sequence[Record], where: Path, backbone: Backbone
) -> FeaturePlan:
    spec = FeatureSpec(**backbone.facts)
    candidate.refuse_other_features(spec, backbone.name)
    _refuse_missing_photos(dataset, records)
    return FeaturePlan(where, spec, tuple(records), backbone)


def _continue(candidate: Candidate, dataset: Dataset, records: Sequence[Record], where: Path) -> FeaturePlan:
    stored = open_features(where)
    candidate.refuse_other_features(stored.spec, where)
    missing = tuple(record for record in records if record.key not in stored)
    if not missing:
        return FeaturePlan(where, stored.spec)
    lacking = f'{where} has no features of {len(missing)} of {len(records)} images, the first is "{missing[0].key}"'
    _refuse_missing_photos(dataset, missing, f"{lacking}, and they cannot be extracted: ")
    try:
        backbone = load_backbone_for(stored.spec, candidate.matcher.tuned)
    except SmlstmError as error:
        raise InputError(f"{lacking}, and they cannot be extracted: {error}") from None
    different = stored.spec.difference(FeatureSpec(**backbone.facts))
    if different:
        field, theirs, ours = different
        raise InputError(
            f'{lacking}, and they cannot be added: its "{field}" is {theirs!r}, the backbone here has {ours!r}'
        )
    return FeaturePlan(where, stored.spec, missing, backbone)


def _load(candidate: Candidate, grid: int | None) -> Backbone:
    name = candidate.matcher.config.backbone
    if not name:
        raise InputError(f"{candidate.name} does not say which backbone it was trained on: give --features")
    try:
        return load_backbone_for(candidate.matcher.config, candidate.matcher.tuned, grid=grid)
    except SmlstmError as error:
        raise InputError(
            f"the features that {candidate.name} was trained on cannot be extracted ({error}): give --features"
        ) from None


def _refuse_missing_photos(dataset: Dataset, records: Sequence[Record], before: str = "") -> None:
    wanted = {record.key for record in records}
    gone = [record for record in dataset.missing if record.key in wanted]
    if gone:
        raise InputError(
            f"{before}{len(gone)} of {len(records)} photos are not there, the first is {gone[0].path}: "
            "`smlstm data check` lists what a dataset lacks"
        )


def _cached(dataset: Dataset, backbone: Backbone) -> Path:
    """A store in the user's cache, named after the dataset's place and all that makes features differ."""
    made = "\n".join((str(dataset.root.resolve()), backbone.weights_sha256, backbone.preprocessing))
    name = f"{dataset.name}-{backbone.name}-{backbone.regions}-{fingerprint([made])[:12]}"
    return cache_folder() / "features" / name.replace(":", "-").replace("/", "-")


def _stamp(record: Record) -> list[int] | None:
    """Tells a photo from one that was put in its place; None where there is none."""
    try:
        found = record.path.stat()
    except OSError:
        return None
    return [found.st_size, found.st_mtime_ns]


def _read_stamps(path: Path) -> dict[str, list[int]]:
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _write_stamps(path: Path, known: dict[str, list[int]], records: Sequence[Record]) -> None:
    """Before the photos are read: one that is changed meanwhile is noticed the next time."""
    stamps = {record.key: stamp for record in records if (stamp := _stamp(record)) is not None}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps({**known, **stamps}))
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}; choose another place with --features") from None


def _extract(backbone: Backbone, where: Path, records: Sequence[Record], progress: Extracted | None) -> list[Skipped]:
    try:
        store = FeatureStore.open(where, FeatureSpec(**backbone.facts))
    except OSError as error:
        raise InputError(f"{where} cannot be written: {error.strerror}; choose another place with --features") from None
    skipped: list[Skipped] = []
    with store:
        wanted = [record for record in records if record.key not in store]
        done = 0
        for batch in Extractor(backbone).extract((record.key, record.path) for record in wanted):
            store.append(batch.keys, batch.regions, batch.context)
            skipped += batch.skipped
            done += len(batch.keys) + len(batch.skipped)
            if progress is not None:
                progress(done, len(wanted))
    return skipped
