"""The command line: one file a command, each thin: parse, call, print.

Results go to stdout, progress and notices to stderr. Exit codes: 0 done, 1 failed, 2 wrong usage or
configuration, 3 unusable input, 4 an optional part is missing, 130 interrupted.
"""

import importlib
import pkgutil
import sys

import typer

from smlstm import __version__
from smlstm.errors import SmlstmError

app = typer.Typer(
    name="smlstm",
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


def _register_commands() -> None:
    """Import every command file of this folder; each adds its command to `app`."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")


def main() -> None:
    """Run the command line; expected failures become one sentence and a stable exit code."""
    _register_commands()
    try:
        app()
    except SmlstmError as error:
        typer.echo(f"smlstm: {error}", err=True)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        typer.echo("smlstm: interrupted", err=True)
        sys.exit(130)
