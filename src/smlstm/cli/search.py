"""`smlstm search`: find photos by a sentence."""

import json
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from smlstm.cli import app
from smlstm.cli.library_options import (
    IndexProgress,
    JsonOption,
    LibraryOption,
    ModelOption,
    RuntimeOption,
    print_paths,
    say_what_to_know,
)
from smlstm.errors import InputError, SmlstmError
from smlstm.files import printable

if TYPE_CHECKING:
    from smlstm.search import Filter, Library
    from smlstm.search.matches import Found

NOTHING_FOUND = 5
_EXAMPLES = """\b
Examples:
  smlstm search "a dog running on the beach" ~/Photos
  smlstm search "a birthday cake" --since 2023 --until 2024 --path "*/family/*"
  smlstm search "a bike" --minus "a person" --plus "0.5:at sunset"
  smlstm search --similar cat.jpg -k 5
  smlstm search "two dogs" --min-score 0.5 --paths | xargs -d "\\n" cp -t chosen/
  smlstm search "two dogs" --explain dogs.html --open
"""


@app.command(epilog=_EXAMPLES)
def search(
    sentence: Annotated[
        str | None, typer.Argument(help="What the photo shows; may be left out with --similar.")
    ] = None,
    folders: Annotated[list[Path] | None, typer.Argument(help="Only below these; without any, everywhere.")] = None,
    *,
    k: Annotated[int, typer.Option("-k", "--top", min=1, help="How many photos.")] = 10,
    min_score: Annotated[
        float, typer.Option(min=0, max=1, help="Lowest match probability (with --similar alone: lowest similarity).")
    ] = 0.0,
    plus: Annotated[
        list[str] | None, typer.Option(metavar="[WEIGHT:]SENTENCE", help="Should match too. May be repeated.")
    ] = None,
    minus: Annotated[
        list[str] | None, typer.Option(metavar="[WEIGHT:]SENTENCE", help="Should not match. May be repeated.")
    ] = None,
    similar: Annotated[Path | None, typer.Option(metavar="PHOTO", help="Among photos similar to this one.")] = None,
    since: Annotated[
        str | None, typer.Option(metavar="DATE", help="Taken on or after: 2024, 2024-05 or 2024-05-31.")
    ] = None,
    until: Annotated[str | None, typer.Option(metavar="DATE", help="Taken on or before.")] = None,
    path: Annotated[
        list[str] | None,
        typer.Option(metavar="PATTERN", help="Only paths like this, such as */2024/*. May be repeated."),
    ] = None,
    no_index: Annotated[bool, typer.Option("--no-index", help="Do not look for new and changed photos first.")] = False,
    no_rerank: Annotated[bool, typer.Option("--no-rerank", help="By embeddings only: faster, less exact.")] = False,
    shortlist: Annotated[int, typer.Option(min=1, help="How many of the nearest photos sm-LSTM reranks.")] = 100,
    explain: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write what the model looked at, as .html or .png.")
    ] = None,
    open_it: Annotated[bool, typer.Option("--open", help="Open the best photo, or what --explain wrote.")] = False,
    paths: Annotated[bool, typer.Option("--paths", help="Print paths only, one per line.")] = False,
    null: Annotated[bool, typer.Option("--null", "-0", help="Print paths only, with a zero byte after each.")] = False,
    thumbnails: Annotated[
        bool | None, typer.Option(help="Show the photos; by default where the terminal can.", show_default=False)
    ] = None,
    library: LibraryOption = None,
    model: ModelOption = None,
    runtime: RuntimeOption = "auto",
    as_json: JsonOption = False,
) -> None:
    """Find the photos that match a sentence, the best first, each with its match probability.

    New and changed photos are taken in first. Ends with code 5 if no photo is found.
    """
    from smlstm.cli.thumbnails import thumbnail_writer  # noqa: PLC0415 - torch takes seconds, --help should not
    from smlstm.search import Library  # noqa: PLC0415

    folders = list(folders or ())
    if similar is not None and sentence is not None and Path(sentence).is_dir():
        folders, sentence = [Path(sentence), *folders], None
    if explain is not None:
        _check_explain(explain, sentence)
    opened = Library(library, model=model, runtime=runtime)
    chosen = _filter(folders, path, since, until)
    if not no_index:
        _bring_in_step(opened, folders)
    found = opened.search(
        sentence,
        k=k,
        plus=plus or (),
        minus=minus or (),
        similar=similar,
        minimum=min_score,
        chosen=chosen,
        shortlist=0 if no_rerank else shortlist,
    )
    say_what_to_know(opened.pair, found.unknown, found.read_as)
    if as_json:
        content = {
            "library": str(opened.folder),
            "searched": found.searched,
            "unknown_words": list(found.unknown),
            "read_as": dict(found.read_as),
            "matches": [match.to_dict() for match in found],
        }
        typer.echo(json.dumps(content, indent=2))
    elif paths or null:
        print_paths((match.path for match in found), "\0" if null else "\n")
    else:
        _print(found, thumbnail_writer(thumbnails))
    if len(found) and not as_json:
        _say_if_unlikely(found)
    if not len(found):
        floor = f" with at least {min_score:g}" if min_score else ""
        typer.echo(f"no photo matches{floor}: {found.searched} were searched", err=True)
        raise typer.Exit(NOTHING_FOUND)
    if explain is not None and sentence is not None:
        _explain(opened, found, sentence, explain)
    if open_it:
        typer.launch(str(explain or found[0].path))


def _filter(folders: list[Path], path: list[str] | None, since: str | None, until: str | None) -> "Filter":
    from smlstm.search import Filter  # noqa: PLC0415 - torch takes seconds, --help should not
    from smlstm.search.changes import real_folder  # noqa: PLC0415
    from smlstm.search.dates import first_moment, moment_after  # noqa: PLC0415

    start: datetime | None = None if since is None else first_moment(since)
    end: datetime | None = None if until is None else moment_after(until)
    return Filter(tuple(real_folder(folder) for folder in folders), tuple(path or ()), start, end)


def _bring_in_step(opened: "Library", folders: list[Path]) -> None:
    """Index what is new; a library that another process writes, or nobody can, is searched as it is."""
    from smlstm.data.lock import Locked  # noqa: PLC0415 - torch takes seconds, --help should not
    from smlstm.search.location import ReadOnlyLibrary  # noqa: PLC0415

    if not folders and not opened.manifest.folders:
        raise InputError(
            f"the library in {opened.folder} is empty: name a folder, or index one with smlstm index FOLDER"
        )
    with IndexProgress() as progress:
        try:
            outcome = opened.index(*folders, watch=progress)
        except (Locked, ReadOnlyLibrary) as error:
            if isinstance(error, ReadOnlyLibrary) and not opened.files.exists:
                raise  # nor is there anything to search
            typer.echo(f"{printable(error)}; searching what is there", err=True)
            return
    for note in outcome.notes:
        typer.echo(f"note: {printable(note)}", err=True)


def _print(found: "Found", write_thumbnail: "object") -> None:
    for match in found:
        value = f"{match.similarity:7.3f}" if match.probability is None else f"{match.probability:7.1%}"
        copies = f"  (and {len(match.copies)} more)" if match.copies else ""
        typer.echo(f"{value}  {printable(match.path)}{copies}")
        if callable(write_thumbnail):
            write_thumbnail(match.path)


def _say_if_unlikely(found: "Found") -> None:
    from smlstm.pair.calibration import UNLIKELY  # noqa: PLC0415 - torch takes seconds, --help should not

    best = found[0].probability
    if best is not None and found.calibrated and best < UNLIKELY:
        typer.echo(f"none of them is likely to match: the best has {best:.1%}", err=True)


def _check_explain(explain: Path, sentence: str | None) -> None:
    from smlstm.explain.output import check_ending  # noqa: PLC0415 - torch takes seconds, --help should not

    if sentence is None:
        raise InputError("--explain shows how a sentence was matched: give one")
    check_ending(explain)


def _explain(opened: "Library", found: "Found", sentence: str, file: Path) -> None:
    from smlstm.explain import write  # noqa: PLC0415 - torch takes seconds, --help should not
    from smlstm.search.query import parse_term  # noqa: PLC0415

    explanations = opened.explain(found, parse_term(sentence).sentence)
    if not explanations:
        raise SmlstmError("the photos have gone since they were found: search again")
    write(explanations, file)
    typer.echo(f"written: {file}", err=True)
