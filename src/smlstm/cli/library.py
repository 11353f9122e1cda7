"""`smlstm library`: look at the library and look after it."""

import json
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from smlstm.cli import app
from smlstm.cli.library_options import JsonOption, LibraryOption, ModelOption, print_paths
from smlstm.errors import InputError
from smlstm.files import printable

if TYPE_CHECKING:
    from smlstm.search import Library

library_app = typer.Typer(help="Inspect and maintain the library of photos.", no_args_is_help=True)
app.add_typer(library_app, name="library")


def _open(library: Path | None, model: Path | None = None) -> "Library":
    from smlstm.search import Library  # noqa: PLC0415 - numpy and Lance take a while, and --help should not

    return Library(library, model=model)


@library_app.command("list")
def list_files(
    *,
    skipped: Annotated[
        bool, typer.Option("--skipped", help="Only files that cannot be used, with the reason.")
    ] = False,
    copies: Annotated[bool, typer.Option("--copies", help="Only files that have copies.")] = False,
    library: LibraryOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the files of the library, one path a line."""
    entries = [each for each in _open(library).entries() if (each.reason is not None) == skipped]
    if copies:
        counts = Counter(each.content for each in entries)
        entries = [each for each in entries if counts[each.content] > 1]
    if as_json:
        rows = [{"path": str(each.path), "content": f"{each.content & (2**64 - 1):016x}"} for each in entries]
        rows = [
            row | ({"reason": each.reason or ""} if skipped else {}) for row, each in zip(rows, entries, strict=True)
        ]
        typer.echo(json.dumps(rows, indent=2))
        return
    if not skipped:
        print_paths(each.path for each in entries)
        return
    for each in entries:
        typer.echo(f"{printable(each.path)}: {each.reason}")


@library_app.command()
def stats(library: LibraryOption = None, model: ModelOption = None, as_json: JsonOption = False) -> None:
    """Show where the library lies, its folders, how many photos it has and what they take."""
    found = _open(library, model).stats()
    if as_json:
        typer.echo(json.dumps(asdict(found), indent=2))
        return
    typer.echo(f"library          {printable(found.folder)}")
    for folder in found.folders:
        without = f" (without {', '.join(folder['exclude'])})" if folder["exclude"] else ""
        typer.echo(f"folder           {printable(folder['path'])}{without}")
    for name in ("files", "photos", "copies", "skipped", "unused"):
        typer.echo(f"{name:<16} {getattr(found, name)}")
    typer.echo(f"{'size':<16} {found.bytes / 1e6:.1f} MB, {found.bytes_per_photo} bytes a photo")


@library_app.command()
def check(library: LibraryOption = None, model: ModelOption = None, as_json: JsonOption = False) -> None:
    """Read all of the library and compare it with its checksums; ends with code 3 if something is wrong."""
    health = _open(library, model).check()
    if as_json:
        typer.echo(json.dumps({"problems": health.problems}, indent=2))
    else:
        for problem in health.problems:
            typer.echo(printable(problem))
    if health:
        raise InputError("the library is damaged: `smlstm library repair` mends it")
    if not as_json:
        typer.echo("the library is whole")


@library_app.command()
def repair(library: LibraryOption = None, model: ModelOption = None, as_json: JsonOption = False) -> None:
    """Keep what is whole of a damaged library, and tell what was lost; `smlstm index` brings that back."""
    health = _open(library, model).repair()
    if as_json:
        typer.echo(json.dumps({"repaired": health.problems, "kept": health.kept}, indent=2))
        return
    for problem in health.problems:
        typer.echo(f"mended: {printable(problem)}")
    for sentence in health.kept:
        typer.echo(printable(sentence))
    typer.echo("smlstm index brings back what was dropped" if health else "the library is whole", err=bool(health))


@library_app.command()
def prune(library: LibraryOption = None, model: ModelOption = None, as_json: JsonOption = False) -> None:
    """Delete photos that no file has any more, and what other models have stored."""
    photos, size = _open(library, model).prune()
    if as_json:
        typer.echo(json.dumps({"photos": photos, "bytes": size}, indent=2))
    else:
        typer.echo(f"{photos} photos deleted, {size / 1e6:.1f} MB freed")


@library_app.command()
def forget(
    folder: Annotated[Path, typer.Argument(help="A folder of the library.")],
    library: LibraryOption = None,
    as_json: JsonOption = False,
) -> None:
    """Take a folder out of the library; the photos themselves stay where they are."""
    files = _open(library).forget(folder)
    typer.echo(json.dumps({"files": files}) if as_json else f"{files} files forgotten")
