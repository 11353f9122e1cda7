"""`smlstm data`: is this dataset what it should be? And scenes drawn to order."""

import json
from pathlib import Path
from typing import Annotated

import typer

from smlstm.cli import app
from smlstm.data import FeatureStore, open_dataset
from smlstm.data.header import is_store
from smlstm.data.scene_folder import write_scenes
from smlstm.data.summary import Summary, summarise
from smlstm.files import printable

data = typer.Typer(help="Inspect datasets and feature stores; draw scenes.", no_args_is_help=True)
app.add_typer(data, name="data")


@data.callback()
def _data() -> None:
    """Inspect datasets and feature stores; draw scenes."""


@data.command()
def check(
    path: Annotated[Path, typer.Argument(help="Folder or file of a dataset, or a feature store.")],
    split_scheme: Annotated[
        str | None, typer.Option(help="Which published splits: official, kiros, karpathy or testall.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")] = False,
) -> None:
    """Print what a dataset holds: counts, splits, missing images, captions per image, sample rows.

    A feature store is read once from end to end and compared with its checksums.
    """
    if is_store(path):
        _check_store(path, as_json)
        return
    summary = summarise(open_dataset(path, split_scheme))
    text = json.dumps(summary.to_dict(), indent=2) if as_json else _as_text(summary)
    # File names need not be valid Unicode; a terminal refuses those that are not.
    typer.echo(printable(text))


@data.command()
def scenes(
    folder: Annotated[Path, typer.Argument(help="A new or empty folder.")],
    *,
    train: Annotated[int, typer.Option(min=0, help="Scenes to learn from.")] = 2000,
    dev: Annotated[int, typer.Option(min=0, help="Scenes to measure on.")] = 200,
    seed: Annotated[int, typer.Option(help="The same seed draws the same scenes, on every machine.")] = 1,
    size: Annotated[int, typer.Option(help="Side of a picture in pixels.")] = 224,
    captions: Annotated[int, typer.Option(help="Sentences per scene, 1 to 5.")] = 5,
    patches: Annotated[
        int | None,
        typer.Option(min=1, help="Also write features that need no trained network, on a grid of this side."),
    ] = None,
) -> None:
    """Draw scenes whose objects and places are known: pictures, captions.csv, scenes.json.

    A dataset like any other; besides, `smlstm evaluate --attention` can tell on it whether attention points right.
    """
    write_scenes(folder, train=train, dev=dev, seed=seed, size=size, captions=captions, patches=patches)
    features = f", patch features in {folder / 'features'}" if patches else ""
    typer.echo(f"{train + dev} scenes in {folder}{features}")


def _check_store(path: Path, as_json: bool) -> None:
    with FeatureStore.open(path) as store:
        store.verify()
        fields = {
            "images": len(store),
            "bytes_per_image": store.record_bytes,
            "bytes": store.record_bytes * len(store),
            **store.spec.to_dict(),
        }
    if as_json:
        typer.echo(json.dumps({"name": "feature store", "root": str(path), **fields}, indent=2))
        return
    typer.echo(f"feature store in {path}: whole, every checksum fits")
    for name, value in fields.items():
        typer.echo(f"  {name:<16} {value}")


def _as_text(summary: Summary) -> str:
    lines = [
        f"{summary.name} in {summary.root}",
        f"  {'split':<8}{'images':>9}{'captions':>10}",
        *(f"  {name:<8}{part['images']:>9}{part['captions']:>10}" for name, part in summary.splits.items()),
        f"  {'all':<8}{summary.images:>9}{summary.captions:>10}",
        _captions_line(summary),
        f"missing images: {summary.missing}" + (", the first:" if summary.missing else ""),
        *(f"  {name}" for name in summary.missing_first),
        *(f"note: {note}" for note in summary.notes),
        "sample rows:",
        *(f"  {sample['key']}  {sample['split']}  {sample['caption']}" for sample in summary.samples),
    ]
    return "\n".join(lines)


def _captions_line(summary: Summary) -> str:
    numbers = summary.captions_per_image
    mean = summary.captions / summary.images
    spread = ", ".join(f"{images} with {number}" for number, images in numbers.items())
    return f"captions an image: {min(numbers)} to {max(numbers)}, mean {mean:.2f} ({spread})"
