"""The options that all commands of a library share, and how far its indexing is."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from smlstm.files import printable
from smlstm.progress_bar import HALF_A_MINUTE, ProgressBar

if TYPE_CHECKING:
    from collections.abc import Iterable

    from smlstm.pair import Pair
    from smlstm.search.indexing import Outcome

ModelOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        envvar="SMLSTM_MODEL",
        help="A pair of models (folders shortlist and reranker), if not the shipped one.",
    ),
]
LibraryOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER", envvar="SMLSTM_LIBRARY", help="Where the library lies, if not in the user's data folder."
    ),
]
RuntimeOption = Annotated[
    str,
    typer.Option(help="What runs the CNN: openvino, onnxruntime, torch or auto; openvino-int8 is faster, less exact."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]


class IndexProgress:
    """Shows how far indexing is, from the first file that needs it on, and names the files it skips."""

    def __init__(self) -> None:
        self._progress: ProgressBar | None = None
        self._done = self._skipped = self._unreachable = 0

    def __call__(self, outcome: "Outcome") -> None:
        """Take the latest news."""
        if self._progress is None:
            if not outcome.total and not outcome.unreachable:
                return
            self._progress = ProgressBar("indexing", outcome.total, between_lines=HALF_A_MINUTE).__enter__()
        for each in outcome.skipped[self._skipped :]:
            self._progress.say(f"skipped {printable(each.path)}: {each.reason}")
        for each in outcome.unreachable[self._unreachable :]:
            self._progress.say(f"not reachable now {printable(each.path)}: {each.reason}")
        self._progress.advance(outcome.done - self._done)
        self._done, self._skipped = outcome.done, len(outcome.skipped)
        self._unreachable = len(outcome.unreachable)

    def __enter__(self) -> "IndexProgress":
        return self

    def __exit__(self, *_: object) -> None:
        if self._progress is not None:
            self._progress.__exit__()


def print_paths(paths: "Iterable[Path]", end: str = "\n") -> None:
    """Print paths for a program, byte by byte as the files are called; in one go, so that `head` breaks no pipe."""
    raw = getattr(sys.stdout, "buffer", None)
    if raw is None:
        typer.echo("".join(str(path) + end for path in paths), nl=False)
        return
    sys.stdout.flush()
    raw.write(b"".join(bytes(path) + end.encode() for path in paths))
    raw.flush()


def say_what_to_know(pair: "Pair", unknown: Sequence[str], read_as: Mapping[str, str]) -> None:
    """Notices on what a model does not know of a question."""
    for typed, meant in read_as.items():
        typer.echo(f'read "{typed}" as "{meant}"', err=True)
    if unknown:
        typer.echo(f"the model has not learned: {', '.join(unknown)}", err=True)
    if not pair.calibrated:
        typer.echo("this model is not calibrated: its percentages only put photos in order", err=True)
