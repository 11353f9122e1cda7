"""`smlstm runs`: list and compare training runs."""

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from smlstm.cli import app

if TYPE_CHECKING:
    from smlstm.training.runs import StageSummary


@app.command()
def runs(
    folders: Annotated[
        list[Path] | None, typer.Argument(help="Folders of runs, or folders that have runs in them.")
    ] = None,
    *,
    stage: Annotated[str | None, typer.Option(help="Only stages of this name.")] = None,
    settings: Annotated[
        bool, typer.Option("--settings/--no-settings", help="Show the settings in which the listed stages differ.")
    ] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON list instead of a table.")] = False,
) -> None:
    """List training runs with their best dev metrics, and say in which settings they differ."""
    from smlstm.training.runs import differing_settings, find_runs, summarise  # noqa: PLC0415 - torch takes seconds

    found = [
        summary
        for folder in find_runs(folders or [Path("runs")])
        for summary in summarise(folder)
        if stage is None or summary.stage == stage
    ]
    if as_json:
        typer.echo(json.dumps([asdict(summary) for summary in found], indent=2))
        return
    if not found:
        typer.echo("no runs here")
        return
    console = Console(width=None if sys.stdout.isatty() else 200)
    console.print(_results(found))
    for kind in dict.fromkeys(summary.kind for summary in found):
        alike = [summary for summary in found if summary.kind == kind]
        different = differing_settings(alike) if settings else {}
        if different:
            console.print()
            console.print(_settings(kind, alike, different))


def _results(found: "list[StageSummary]") -> Table:
    table = Table(box=None, pad_edge=False)
    for column in ("run", "stage"):
        table.add_column(column, no_wrap=True)
    for column in (
        "epochs",
        "loss",
        "best",
        "images",
        "i2t R@1",
        "@5",
        "@10",
        "t2i R@1",
        "@5",
        "@10",
        "Sum",
        "minutes",
    ):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("state")
    for summary in found:
        table.add_row(summary.run, summary.stage, summary.epochs, *_numbers(summary), summary.state)
    return table


def _numbers(summary: "StageSummary") -> list[str]:
    loss = "-" if summary.loss is None else f"{summary.loss:.3g}"
    minutes = f"{summary.minutes:.1f}"
    if summary.best is None:
        return [loss, *["-"] * 9, minutes]
    dev = summary.best
    rates = [f"{dev[side][rate]:.1f}" for side in ("annotation", "retrieval") for rate in ("r1", "r5", "r10")]
    return [loss, str(summary.best_epoch), str(dev["images"]), *rates, f"{dev['sum']:.1f}", minutes]


def _settings(kind: str, alike: "list[StageSummary]", different: dict[str, list[Any]]) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column(f"{kind} differs in", no_wrap=True)
    for summary in alike:
        table.add_column(f"{summary.run}/{summary.stage}")
    for name, values in different.items():
        table.add_row(name, *("-" if value is None else str(value) for value in values))
    return table
