"""What the commands that work on a dataset share: opening it, saying what is missing, bars that count photos."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from smlstm.errors import ConfigurationError
from smlstm.progress_bar import ProgressBar

if TYPE_CHECKING:
    from smlstm.data import Dataset
    from smlstm.evaluation.feature_plan import Extracted, FeaturePlan


def refuse_beside(context: typer.Context, option: str, others: Sequence[str]) -> None:
    """Refuse parameters that were given and would be ignored."""
    given = given_options(context, others)
    if given:
        raise ConfigurationError(f"{given[0]} says nothing beside {option}: leave one of them out")


def given_options(context: typer.Context, names: Sequence[str]) -> list[str]:
    """Which of some parameters stand on the command line, as they are written there."""
    written = {each.name: each.opts[0] for each in context.command.params if each.name}
    sources = {name: context.get_parameter_source(name) for name in names}
    return [written[name] for name, source in sources.items() if source and source.name == "COMMANDLINE"]


def open_data(
    data: Path, captions: Path | None, features: Path | None, scheme: str | None
) -> "tuple[Dataset, Path | None]":
    """The dataset, and where its features are if that was said."""
    from smlstm.data import open_dataset  # noqa: PLC0415 - torch takes seconds, --help should not
    from smlstm.data.header import is_store  # noqa: PLC0415

    if not is_store(data):
        if captions is not None:
            raise ConfigurationError("--captions goes with a feature store as --data; a dataset has its own captions")
        return open_dataset(data, scheme), features
    if captions is None or features is not None:
        raise ConfigurationError(
            f"{data} is a feature store, which has no captions: give the dataset as --captions (or the dataset as "
            "--data and the store as --features)"
        )
    return open_dataset(captions, scheme), data


def announce(notes: Sequence[str], plans: "dict[str, FeaturePlan]") -> None:
    """Say what was left out, and what is going to be extracted."""
    for note in notes:
        typer.echo(f"note: {note}", err=True)
    for plan in plans.values():
        if plan.backbone is not None:
            made = f"{plan.backbone.name}, {plan.spec.regions} regions"
            typer.echo(f"extracting {len(plan.missing)} photos ({made}) into {plan.where}", err=True)


def on_terminal() -> bool:
    """Whether someone watches."""
    return sys.stderr.isatty()


def extraction_bar(backbone: str) -> "AbstractContextManager[Extracted]":
    """Show how many photos are extracted."""
    return photo_bar(f"Extracting with {backbone}")


@contextmanager
def photo_bar(title: str) -> "Iterator[Extracted]":
    """Show how many photos are done; nothing where stderr is no terminal."""
    with ProgressBar(title) as bar:
        yield bar.update
