"""`smlstm extract`: photos to stored features, once."""

import json
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from smlstm.cli import Interrupted, app
from smlstm.errors import ConfigurationError, InputError
from smlstm.progress_bar import HALF_A_MINUTE, ProgressBar

if TYPE_CHECKING:
    from smlstm.data import FeatureStore, Record
    from smlstm.vision.extract import Extractor


@dataclass
class Outcome:
    """What a run did, as `--json` prints it."""

    store: str
    backbone: str
    weights_sha256: str
    runtime: str
    photos: int
    bytes_per_photo: int
    already_stored: int = 0
    changed: int = 0
    extracted: int = 0
    skipped: int = 0
    unreachable: int = 0
    seconds: float = 0.0
    photos_per_second: float = 0.0
    skipped_list: str | None = None


@app.command()
def extract(
    dataset: Annotated[Path, typer.Argument(help="A dataset, or any folder of photos.")],
    *,
    out: Annotated[Path, typer.Option(help="The feature store: a new one, or one to continue.")],
    backbone: Annotated[
        str,
        typer.Option(
            help="efficientnet-lite2, -lite0 or -lite1, vgg19, timm:<model>, or the folder of a model whose backbone "
            "was tuned."
        ),
    ] = "efficientnet-lite2",
    grid: Annotated[
        int | None, typer.Option(help="Side of the square of regions, where it can be chosen: 7, 10 or 14.")
    ] = None,
    weights: Annotated[Path | None, typer.Option(help="Weights file, if not the one found by itself.")] = None,
    mirrored: Annotated[
        bool, typer.Option("--mirrored", help="Mirrored photos: a second store, for training on both views.")
    ] = False,
    augmented: Annotated[
        int | None,
        typer.Option(
            metavar="SEED",
            min=0,
            help="Of each photo a part, perhaps shrunk, compressed and mirrored, as the seed draws it: one more "
            "view to train on.",
        ),
    ] = None,
    below: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Stop before the block with this number (from 0): what training can tune the other blocks from. "
            "15 for efficientnet-lite2, 4 for vgg19.",
        ),
    ] = None,
    split: Annotated[str | None, typer.Option(help="Only this split: train, dev or test.")] = None,
    split_scheme: Annotated[
        str | None, typer.Option(help="Which published splits: official, kiros or karpathy.")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first photos, this many.")] = None,
    limit_megapixels: Annotated[
        float, typer.Option(help="Photos with more megapixels are skipped.", min=0.001)
    ] = 100.0,
    runtime: Annotated[
        str,
        typer.Option(
            help="openvino, onnxruntime or torch; auto takes the fastest that is installed. openvino-int8 is faster, "
            "for efficientnet-lite2; its features go into a store of their own."
        ),
    ] = "auto",
    batch: Annotated[int, typer.Option(min=1, help="Photos that are stored at a time.")] = 16,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")] = False,
) -> None:
    """Extract the features of every photo once, into a store that training and search read.

    A run that was interrupted continues where it stopped. A photo that cannot be read is skipped; what was
    skipped and why is listed in OUT/skipped.jsonl, one JSON object a line. The next run tries all of them again.
    """
    # Imported here, since torch takes seconds and --help should not.
    from smlstm.data import FeatureSpec, FeatureStore, open_dataset  # noqa: PLC0415 - torch takes seconds, --help should not
    from smlstm.evaluation.models import load_matcher  # noqa: PLC0415
    from smlstm.vision.backbones import load_backbone  # noqa: PLC0415
    from smlstm.vision.extract import Extractor  # noqa: PLC0415
    from smlstm.vision.photo_features import load_backbone_for  # noqa: PLC0415
    from smlstm.vision.views import View  # noqa: PLC0415

    found = open_dataset(dataset, split_scheme)
    if found.name == "precomputed":
        raise InputError(f"{dataset} holds features already, not photos: training reads them as they are")
    for note in found.notes:
        typer.echo(f"note: {note}", err=True)
    records = list(islice(found.records if split is None else found.split(split), limit))
    if mirrored and augmented is not None:
        raise ConfigurationError("--augmented mirrors half of the photos itself: leave --mirrored out")
    if (Path(backbone) / "config.json").is_file():
        matcher = load_matcher(Path(backbone))
        network = load_backbone_for(matcher.config, matcher.tuned, grid=grid, weights=weights)
    else:
        network = load_backbone(backbone, grid=grid, weights=weights)
    network = replace(network, view=View(mirrored, augmented))
    if below is not None:
        network = network.lower_part(below)
    # All that can fail comes before the store, so that a failed run leaves none behind.
    extractor = Extractor(network, runtime=runtime, batch_size=batch, limit_megapixels=limit_megapixels)
    with FeatureStore.open(out, FeatureSpec(**extractor.backbone.facts)) as store:
        outcome = Outcome(
            store=str(out),
            backbone=network.name,
            weights_sha256=network.weights_sha256,
            runtime=extractor.runner.name,
            photos=len(records),
            bytes_per_photo=store.record_bytes,
        )
        try:
            _run(extractor, records, store, outcome)
        except KeyboardInterrupt:
            raise Interrupted(f"interrupted: {len(store)} stored in {out}; the same command continues") from None
    typer.echo(json.dumps(asdict(outcome), indent=2) if as_json else _as_text(outcome))
    if outcome.skipped + outcome.unreachable == outcome.photos:
        raise InputError(f"none of the {outcome.photos} photos could be read: {outcome.skipped_list} says why")
    if outcome.changed:
        raise InputError(
            f"{out} has features of other photos under the names of {outcome.changed} of these "
            f"({outcome.skipped_list} lists them): nothing in a store is ever replaced, extract them into another one"
        )


def _run(extractor: "Extractor", records: "Sequence[Record]", store: "FeatureStore", outcome: Outcome) -> None:
    """Extract and store what is not stored yet, and show how far it is."""
    from smlstm.data.header import SKIPPED  # noqa: PLC0415 - torch takes seconds, --help should not

    wanted = [record for record in records if record.key not in store]
    progress = ProgressBar(f"{outcome.backbone} on {outcome.runtime}", len(wanted), between_lines=HALF_A_MINUTE)
    skips = SkippedList(Path(outcome.store) / SKIPPED, progress)
    start = time.monotonic()
    with progress, skips:
        for record in _changed(records, store, progress):
            skips.add(record.key, str(record.path), "the store has the features of another photo under its name")
            outcome.changed += 1
        outcome.already_stored = len(records) - len(wanted) - outcome.changed
        with closing(extractor.extract((record.key, record.path) for record in wanted)) as batches:
            for batch in batches:
                store.append(batch.keys, batch.regions, batch.context, batch.sources)
                outcome.extracted += len(batch.keys)
                for skipped in batch.skipped:
                    outcome.skipped += not skipped.unreachable
                    outcome.unreachable += skipped.unreachable
                    skips.add(skipped.key, skipped.path, skipped.reason, skipped.unreachable)
                progress.advance(len(batch.keys) + len(batch.skipped))
    outcome.skipped_list = str(skips.path) if skips.any else None
    outcome.seconds = round(time.monotonic() - start, 3)
    outcome.photos_per_second = round(outcome.extracted / outcome.seconds, 2) if outcome.seconds else 0.0


def _changed(records: "Sequence[Record]", store: "FeatureStore", progress: ProgressBar) -> "list[Record]":
    """Find stored photos whose files are not those that their features were made from."""
    from smlstm.vision.sources import is_source  # noqa: PLC0415 - torch takes seconds, --help should not

    changed = []
    said = time.monotonic()
    for number, record in enumerate(records):
        source = store.source(record.key)
        if source is not None and not is_source(record.path, source):
            changed.append(record)
        if time.monotonic() - said > 5:  # files that were moved are read to be compared
            said = time.monotonic()
            progress.say(f"compared {number + 1}/{len(records)} photos with what is stored of them")
    return changed


def _as_text(outcome: Outcome) -> str:
    lines = [
        f"{outcome.extracted} photos extracted into {outcome.store} in {outcome.seconds:.1f} s "
        f"({outcome.photos_per_second:.1f} photos/s, {outcome.bytes_per_photo} bytes a photo)",
        f"{outcome.backbone}, weights {outcome.weights_sha256[:12]}, on {outcome.runtime}",
    ]
    if outcome.already_stored:
        lines.append(f"{outcome.already_stored} were stored already")
    if outcome.skipped:
        lines.append(f"{outcome.skipped} skipped: see {outcome.skipped_list}")
    if outcome.unreachable:
        lines.append(f"{outcome.unreachable} not reachable now: see {outcome.skipped_list}; run it again for them")
    return "\n".join(lines)


@dataclass
class SkippedList:
    """The skipped photos of the latest run, one JSON object a line; no file when there were none."""

    path: Path
    progress: ProgressBar
    _file: TextIO | None = field(default=None, init=False)

    def __enter__(self) -> "SkippedList":
        self.path.unlink(missing_ok=True)
        return self

    @property
    def any(self) -> bool:
        """Whether there were any."""
        return self._file is not None

    def add(self, key: str, path: str, reason: str, unreachable: bool = False) -> None:
        """Say it, and write a line at once, so that an interrupted run leaves its list."""
        self.progress.say(f"{'not reachable now' if unreachable else 'skipped'} {path}: {reason}")
        if self._file is None:
            self._file = self.path.open("w", encoding="utf-8")
        line = {"key": key, "path": path, "reason": reason, "unreachable": unreachable}
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()
