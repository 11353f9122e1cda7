"""`smlstm extract`: photos to stored features, once."""

import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text

from smlstm.cli import app
from smlstm.errors import InputError

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
    already_stored: int
    extracted: int = 0
    skipped: int = 0
    seconds: float = 0.0
    photos_per_second: float = 0.0
    bytes_per_photo: int = 0
    skipped_list: str | None = None


@app.command()
def extract(
    dataset: Annotated[Path, typer.Argument(help="A dataset, or any folder of photos.")],
    *,
    out: Annotated[Path, typer.Option(help="The feature store: a new one, or one to continue.")],
    backbone: Annotated[
        str, typer.Option(help="efficientnet-lite0, -lite1 or -lite2, vgg19, or timm:<model>.")
    ] = "efficientnet-lite0",
    grid: Annotated[
        int | None, typer.Option(help="Side of the square of regions, where it can be chosen: 7, 10 or 14.")
    ] = None,
    weights: Annotated[Path | None, typer.Option(help="Weights file, if not the one found by itself.")] = None,
    split: Annotated[str | None, typer.Option(help="Only this split: train, dev or test.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Only so many photos, from the first.")] = None,
    limit_megapixels: Annotated[
        float, typer.Option(help="Photos with more megapixels are skipped.", min=0.001)
    ] = 100.0,
    runtime: Annotated[
        str, typer.Option(help="openvino, onnxruntime or torch; auto takes the fastest that is installed.")
    ] = "auto",
    batch: Annotated[int, typer.Option(min=1, help="Photos that are stored at a time.")] = 16,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")] = False,
) -> None:
    """Extract the features of every photo once, into a store that training and search read.

    A run that was interrupted continues where it stopped. A photo that cannot be read is skipped; what was
    skipped and why is listed beside the store, in OUT.skipped.jsonl, one JSON object a line.
    """
    # Imported here, since torch takes seconds and --help should not.
    from smlstm.data import FeatureSpec, FeatureStore, open_dataset  # noqa: PLC0415
    from smlstm.vision.backbones import load_backbone  # noqa: PLC0415
    from smlstm.vision.extract import Extractor  # noqa: PLC0415

    found = open_dataset(dataset)
    records = list(islice(found.records if split is None else found.split(split), limit))
    network = load_backbone(backbone, grid=grid, weights=weights)
    spec = FeatureSpec(
        backbone=network.name,
        weights_sha256=network.weights_sha256,
        preprocessing=network.preprocessing,
        regions=network.regions,
        region_width=network.region_width,
        context_width=network.context_width,
    )
    with FeatureStore.open(out, spec) as store:
        wanted = [record for record in records if record.key not in store]
        extractor = Extractor(network, runtime=runtime, batch_size=batch, limit_megapixels=limit_megapixels)
        outcome = Outcome(
            store=str(out),
            backbone=network.name,
            weights_sha256=network.weights_sha256,
            runtime=extractor.runner.name,
            photos=len(records),
            already_stored=len(records) - len(wanted),
            bytes_per_photo=store.record_bytes,
        )
        _run(extractor, wanted, store, outcome)
    typer.echo(json.dumps(asdict(outcome), indent=2) if as_json else _as_text(outcome))
    if outcome.skipped == outcome.photos:
        raise InputError(f"none of the {outcome.photos} photos could be read: {outcome.skipped_list} says why")


def _run(extractor: "Extractor", wanted: "Sequence[Record]", store: "FeatureStore", outcome: Outcome) -> None:
    """Extract and store what is wanted, and show how far it is."""
    skips = SkippedList(Path(f"{outcome.store.rstrip('/')}.skipped.jsonl"))
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        PhotosPerSecond(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    start = time.monotonic()
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress, skips:
        task = progress.add_task(f"{outcome.backbone} on {outcome.runtime}", total=len(wanted))
        for batch in extractor.extract((record.key, record.path) for record in wanted):
            store.append(batch.keys, batch.regions, batch.context)
            outcome.extracted += len(batch.keys)
            for skipped in batch.skipped:
                skips.add(asdict(skipped))
                progress.console.print(f"skipped {skipped.path}: {skipped.reason}", markup=False, highlight=False)
            progress.advance(task, len(batch.keys) + len(batch.skipped))
    outcome.skipped = skips.count
    outcome.skipped_list = str(skips.path) if skips.count else None
    outcome.seconds = round(time.monotonic() - start, 3)
    outcome.photos_per_second = round(outcome.extracted / outcome.seconds, 2) if outcome.seconds else 0.0


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
    return "\n".join(lines)


@dataclass
class SkippedList:
    """The skipped photos of the latest run, one JSON object a line; no file when there were none."""

    path: Path
    count: int = 0
    _file: TextIO | None = field(default=None, init=False)

    def __enter__(self) -> "SkippedList":
        self.path.unlink(missing_ok=True)
        return self

    def add(self, entry: dict[str, str]) -> None:
        """Write a line at once, so that an interrupted run leaves its list."""
        if self._file is None:
            self._file = self.path.open("w", encoding="utf-8")
        self._file.write(json.dumps(entry) + "\n")
        self._file.flush()
        self.count += 1

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()


class PhotosPerSecond(ProgressColumn):
    """The recent speed."""

    def render(self, task: Task) -> Text:
        """Show the speed, once there is one."""
        return Text(f"{task.speed:.1f} photos/s" if task.speed else "", style="progress.data.speed")
