"""The command line: one file a command, each thin: parse, call, print.

Results go to stdout, progress and notices to stderr. Exit codes: 0 done, 1 failed, 2 wrong usage or
configuration, 3 unusable input, 4 an optional part is missing, 5 nothing found, 130 interrupted.
"""

import importlib
import os
import pkgutil
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import typer
from typer.core import TyperGroup

from smlstm import __version__
from smlstm.errors import SmlstmError


class Interrupted(SmlstmError):
    """Someone pressed Ctrl-C; the message says what was done and how to go on."""

    exit_code = 130


class Commands(TyperGroup):
    """Turns an interruption into a failure of ours: typer would end without a word, or with code 1."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was asked for."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise Interrupted("interrupted") from None


app = typer.Typer(
    name="smlstm",
    cls=Commands,
    help="Match photos and sentences, and see what the model looked at.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"smlstm {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(
        False, "--version", callback=_print_version, is_eager=True, help="Show the version and exit."
    ),
) -> None:
    """Match photos and sentences, and see what the model looked at."""


def _register_commands(asked: str = "") -> None:
    """Import the file of the command that is asked for, or else every one here; each adds its own to `app`."""
    names = [module.name for module in pkgutil.iter_modules(__path__)]
    for name in [asked] if asked in names else names:
        importlib.import_module(f"{__name__}.{name}")
    if not app.registered_commands and not app.registered_groups:  # what was asked for is a file, but no command
        _register_commands()


@contextmanager
def _ending_at_the_second_signal() -> Iterator[None]:
    """The first Ctrl-C ends a command in good order; the second one at once, whatever its threads are at."""
    main_thread = threading.current_thread() is threading.main_thread()
    if not main_thread or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:  # not ours to change
        yield
        return
    pressed = False

    def note(_: int, __: FrameType | None) -> None:
        nonlocal pressed
        if pressed:
            os._exit(Interrupted.exit_code)
        pressed = True
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        if not pressed:  # else the second may come while threads are waited for at the very end
            signal.signal(signal.SIGINT, signal.default_int_handler)


def main() -> None:
    """Run the command line; expected failures become one sentence and a stable exit code."""
    try:
        with _ending_at_the_second_signal():
            _register_commands(*sys.argv[1:2])
            app()
    except SmlstmError as error:
        typer.echo(f"smlstm: {error}", err=True)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:  # before the command began
        typer.echo("smlstm: interrupted", err=True)
        sys.exit(130)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        typer.echo(f"smlstm: {where}{error.strerror or error}", err=True)
        sys.exit(1)
