"""`smlstm train`: from a configuration file to a folder with a model."""

import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from smlstm.cli import app
from smlstm.progress_bar import ProgressBar

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from smlstm.scoring.progress import ProgressCallback
    from smlstm.training import StageResult
    from smlstm.training.dev import DevMetrics
    from smlstm.training.watchers import Watcher


@app.command()
def train(
    config: Annotated[Path, typer.Argument(help="A TOML file, or the folder of a run to continue.")],
    *,
    out: Annotated[Path | None, typer.Option(help="The run's folder; by default runs/NAME.")] = None,
    stage: Annotated[list[str] | None, typer.Option(help="Train this stage only; may be given several times.")] = None,
    minutes: Annotated[
        float | None, typer.Option(min=0, help="Stop after this time, with a checkpoint and dev metrics.")
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Forget what the folder has of these stages.")] = False,
    setting: Annotated[
        list[str] | None, typer.Option("--set", help="Change a setting, such as stage.mnlm.epochs=5.")
    ] = None,
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="Also write TensorBoard's files (needs the extra of that name).")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
) -> None:
    """Train the stages of a run. A run that was interrupted, or killed, goes on where it was.

    Everything is left in the run's folder: configuration, versions, metrics.jsonl, curves.png, the best model.
    """
    # Imported here, since torch takes seconds and --help should not.
    from smlstm.training import read_config  # noqa: PLC0415 - torch takes seconds, --help should not
    from smlstm.training import train as run  # noqa: PLC0415
    from smlstm.training.watchers import Watchers  # noqa: PLC0415

    settings = read_config(config, setting or ())
    folder = out or (config if config.is_dir() else Path("runs") / settings.name)
    watchers: list[Watcher] = [make_display()]
    if tensorboard:
        from smlstm.training.tensorboard import Board  # noqa: PLC0415 - torch takes seconds, --help should not

        watchers.append(Board(folder / "tensorboard"))
    results = run(settings, folder, stages=stage, minutes=minutes, fresh=fresh, watcher=Watchers(*watchers))
    if os.environ.get("RANK", "0") != "0":
        return  # one of several processes of torchrun: the first one speaks
    if as_json:
        typer.echo(json.dumps({"folder": str(folder), "stages": [_as_dict(result) for result in results]}, indent=2))
    else:
        Console(width=None if sys.stdout.isatty() else 200).print(_table(results))
        typer.echo(f"model, metrics and curves are in {folder}")
    if any(result.reason == "interrupted" for result in results):
        typer.echo("interrupted; the same command continues", err=True)
        sys.exit(130)


def make_display() -> "Watcher":
    """Progress on stderr: a bar on a terminal, a line a minute elsewhere."""
    from smlstm.scoring import progress_bar  # noqa: PLC0415 - torch takes seconds, --help should not
    from smlstm.training.watchers import Watcher  # noqa: PLC0415

    class Display(Watcher):
        """Shows pairs/s, loss and time left."""

        def __init__(self) -> None:
            self.bar: ProgressBar | None = None
            self.pairs, self.began, self.loss = 0, time.monotonic(), 0.0

        def begin(self, stage: str, step: int, steps: int) -> None:
            self.first = step
            self.pairs, self.began = 0, time.monotonic()
            self.bar = ProgressBar(stage, steps, "steps", between_lines=60).__enter__()
            self.bar.update(step, resumed=step)
            if step and not self.bar.in_terminal:
                self.notice(f"{stage} goes on from step {step} of {steps}")

        def step(self, step: int, loss: float, pairs: int) -> None:
            self.pairs += pairs
            self.loss = loss if step == self.first + 1 else 0.95 * self.loss + 0.05 * loss
            rate = self.pairs / max(1e-6, time.monotonic() - self.began)
            if self.bar:
                self.bar.update(step, resumed=self.first, news=f"loss {self.loss:.4g}, {rate:,.0f} pairs/s")

        def dev(self, stage: str, epoch: int, found: "DevMetrics", best: bool) -> None:
            mark = " (best)" if best else ""
            pointing = "" if found.pointing is None else f", points at {found.pointing['alone']:.1%} of phrases"
            self.notice(f"{stage} epoch {epoch + 1}: loss {self.loss:.4g}, dev Sum {found.sum:.1f}{pointing}{mark}")

        def notice(self, text: str) -> None:
            (self.bar or ProgressBar("")).say(text)

        def scoring(self, title: str, unit: str = "pairs") -> "AbstractContextManager[ProgressCallback | None]":
            return progress_bar(title, unit)

        def end(self, stage: str, reason: str) -> None:
            if self.bar:
                self.bar.__exit__()
                self.bar = None
            self.notice(f"{stage} ended: {reason}")

    return Display()


def _as_dict(result: "StageResult") -> dict[str, Any]:
    return {"stage": result.stage, "reason": result.reason, "finished": result.finished, "best": result.best}


def _table(results: "list[StageResult]") -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("best on dev", no_wrap=True)
    for column in ("epoch", "images", "i2t R@1", "@5", "@10", "t2i R@1", "@5", "@10", "Sum", "minutes"):
        table.add_column(column, justify="right", no_wrap=True)
    for result in results:
        if result.best is None:
            table.add_row(result.stage, *["-"] * 10)
            continue
        dev = result.best["dev"]
        rates = [f"{dev[side][rate]:.1f}" for side in ("annotation", "retrieval") for rate in ("r1", "r5", "r10")]
        minutes = f"{result.best['seconds'] / 60:.1f}" if "seconds" in result.best else "-"
        table.add_row(
            result.stage, str(result.best["epoch"] + 1), str(dev["images"]), *rates, f"{dev['sum']:.1f}", minutes
        )
    return table
