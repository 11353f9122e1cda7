"""`smlstm reproduce`: every table and figure of the paper, on the data at hand, beside its numbers."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from smlstm.cli import app
from smlstm.cli.dataset_options import on_terminal, photo_bar
from smlstm.cli.train import make_display


@app.command()
def reproduce(
    config: Annotated[Path, typer.Argument(help="A TOML file, such as configs/reproduce.toml.")],
    *,
    out: Annotated[Path | None, typer.Option(help="Folder for runs and report; by default runs/NAME.")] = None,
    only: Annotated[
        str | None,
        typer.Option(
            help="Parts, comma-separated: variants, steps, lambdas, modulations, comparisons, baselines, attention."
        ),
    ] = None,
    minutes: Annotated[
        float | None, typer.Option(min=0, help="The limit for training one run, over all sessions.")
    ] = None,
    pairs: Annotated[
        int, typer.Option(min=0, help="Also show this many pairs with their photos, on a separate page.")
    ] = 0,
    report_only: Annotated[
        bool, typer.Option("--report", help="Train nothing: write the report of the runs so far.")
    ] = False,
    setting: Annotated[
        list[str] | None, typer.Option("--set", help="Change a setting, such as reproduce.steps=[1,3].")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report's numbers as JSON.")] = False,
) -> None:
    """Train and measure the paper's variants and sweeps, other readings, baselines; write a report beside its numbers.

    Everything that does not fit is refused first. Killed at any moment, the same command goes on: runs that are
    complete are not repeated, the one in the middle goes on from its checkpoint.
    """
    # Imported here, since torch takes seconds and --help should not.
    from smlstm.reproduce import read_reproduce_config  # noqa: PLC0415 - torch takes seconds, --help should not
    from smlstm.reproduce import reproduce as run  # noqa: PLC0415

    settings = read_reproduce_config(config, setting or ())
    outcome = run(
        settings,
        out or Path("runs") / settings.name,
        only=None if only is None else only.split(","),
        minutes=minutes,
        pairs=pairs,
        report_only=report_only,
        watcher=make_display(),
        bar=photo_bar,
        show=on_terminal(),
    )
    report = outcome.report
    if as_json:
        typer.echo(json.dumps(json.loads(report.numbers.read_text(encoding="utf-8")), indent=2))
    else:
        typer.echo(f"{outcome.done} of {outcome.runs} runs are measured")
        typer.echo(f"report: {report.page} and {report.markdown}")
    if outcome.interrupted:
        typer.echo("interrupted; the same command continues", err=True)
        sys.exit(130)
