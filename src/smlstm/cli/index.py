"""`smlstm index`: take folders of photos into the library."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from smlstm.cli import Interrupted, app
from smlstm.cli.library_options import IndexProgress, JsonOption, LibraryOption, ModelOption, RuntimeOption
from smlstm.errors import InputError
from smlstm.files import printable

if TYPE_CHECKING:
    from smlstm.search.indexing import Outcome

_EXAMPLES = """\b
Examples:
  smlstm index ~/Photos                                take a folder in, or bring the library in step with it
  smlstm index ~/Photos --exclude "*.gif" --exclude private
  smlstm index                                         bring it in step with all folders it knows
"""


@app.command(epilog=_EXAMPLES)
def index(
    folders: Annotated[
        list[Path] | None, typer.Argument(help="Folders of photos; without any, all known ones.")
    ] = None,
    *,
    exclude: Annotated[
        list[str] | None,
        typer.Option(metavar="PATTERN", help="Leave out names or paths like this; remembered. May be repeated."),
    ] = None,
    include_all: Annotated[bool, typer.Option("--include-all", help="Forget the exclusions of these folders.")] = False,
    retry: Annotated[bool, typer.Option(help="Try files again that could not be read before.")] = False,
    library: LibraryOption = None,
    model: ModelOption = None,
    runtime: RuntimeOption = "auto",
    as_json: JsonOption = False,
) -> None:
    """Index photos into the library, so that `smlstm search` finds them.

    Only what is new goes through the CNN: photos that were moved or copied are known by their content. What was stored
    stays when it is interrupted; the same command continues. A file that cannot be used is skipped and
    named; one that cannot be reached now is looked at again the next time, and stays as it was known until then.
    """
    from smlstm.search import Library  # noqa: PLC0415 - numpy and Lance take a while, and --help should not

    opened = Library(library, model=model, runtime=runtime)
    if not folders and not opened.manifest.folders:
        raise InputError(f"the library in {opened.folder} has no folders yet: smlstm index FOLDER")
    typer.echo(f"library: {printable(opened.folder)}", err=True)
    exclusions = list(exclude or ()) if exclude or include_all else None
    with IndexProgress() as progress:
        try:
            outcome = opened.index(*(folders or ()), exclude=exclusions, retry=retry, watch=progress)
        except KeyboardInterrupt:
            raise Interrupted("interrupted: what was stored stays, and the same command continues") from None
    for note in outcome.notes:
        typer.echo(f"note: {printable(note)}", err=True)
    if as_json:
        typer.echo(json.dumps({"library": str(opened.folder), **outcome.to_dict()}, indent=2))
    else:
        typer.echo(as_text(outcome))


def as_text(outcome: "Outcome") -> str:
    """What was done, in a line."""
    names = ("new", "changed", "moved", "duplicates", "returned", "deleted")
    counts = [f"{getattr(outcome, name)} {name}" for name in names if getattr(outcome, name)]
    counts += [f"{len(outcome.skipped)} skipped"] if outcome.skipped else []
    counts += [f"{len(outcome.unreachable)} not reachable now"] if outcome.unreachable else []
    counts.append(f"{outcome.unchanged} unchanged")
    if not outcome.extracted:
        return ", ".join(counts)
    speed = outcome.extracted / max(outcome.seconds, 1e-3)
    return f"{', '.join(counts)}; {outcome.extracted} extracted in {outcome.seconds:.1f} s ({speed:.1f} photos/s)"
