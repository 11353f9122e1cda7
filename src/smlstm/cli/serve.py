"""`smlstm serve`: the web page and the HTTP API."""

import os
import secrets
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from smlstm.cli import app
from smlstm.cli.library_options import LibraryOption, ModelOption, RuntimeOption
from smlstm.files import printable

_EXAMPLES = """\b
Examples:
  smlstm serve ~/Photos                    takes the folder in and opens the page
  smlstm serve                             everything in the library
  smlstm serve --port 0 --no-open --log json
  smlstm serve ~/Photos --host 0.0.0.0     for other machines too, with a token
"""


@app.command(epilog=_EXAMPLES)
def serve(
    folders: Annotated[
        list[Path] | None, typer.Argument(help="Show only these; without any, the whole library.")
    ] = None,
    *,
    host: Annotated[str, typer.Option(help="Address to listen on; others than this machine's need a token.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes any that is free.")] = 8765,
    token: Annotated[
        str | None,
        typer.Option(
            envvar="SMLSTM_TOKEN", help="What requests must carry; generated where one is needed.", metavar="TEXT"
        ),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A further name of this server, such as a proxy's. May be repeated."),
    ] = None,
    no_index: Annotated[bool, typer.Option("--no-index", help="Do not look for new and changed photos first.")] = False,
    open_it: Annotated[
        bool | None,
        typer.Option("--open/--no-open", help="Open the page; by default at a desktop's terminal.", show_default=False),
    ] = None,
    upload_megabytes: Annotated[int, typer.Option(min=1, max=1024, help="The largest upload that is accepted.")] = 32,
    log: Annotated[str, typer.Option(metavar="text|json", help="Notices as text, or every request as JSON.")] = "text",
    library: LibraryOption = None,
    model: ModelOption = None,
    runtime: RuntimeOption = "auto",
) -> None:
    """Open a page where photos are found, named and explained, with an HTTP API behind it.

    New and changed photos are taken in while the page is there. Ctrl-C ends it.
    """
    if log not in ("text", "json"):
        raise typer.BadParameter(f"{log!r} is neither text nor json", param_hint="--log")
    from smlstm.search import Library  # noqa: PLC0415 - torch takes seconds, and --help should not
    from smlstm.search.changes import real_folder  # noqa: PLC0415
    from smlstm.web.app import create_app  # noqa: PLC0415
    from smlstm.web.logs import set_up  # noqa: PLC0415
    from smlstm.web.server import address_of, listen, run  # noqa: PLC0415
    from smlstm.web.settings import MEGABYTE, Settings  # noqa: PLC0415

    set_up(log == "json")
    settings = Settings(
        host=host,
        token=token,
        hosts=tuple(allow_host or ()),
        folders=tuple(real_folder(folder) for folder in folders or ()),
        upload_bytes=upload_megabytes * MEGABYTE,
    )
    if not settings.is_loopback and not settings.token:
        settings = replace(settings, token=secrets.token_urlsafe(24))
    found = listen(host, port)
    opened = Library(library, model=model, runtime=runtime)
    index = not no_index and bool(settings.folders or opened.manifest.folders)
    served = create_app(opened, settings, index=index)
    address = address_of(found)

    def ready() -> None:
        page = f"{address}?token={settings.token}" if settings.token else address
        typer.echo(page)
        typer.echo(f"library: {printable(opened.folder)}; Ctrl-C ends", err=True)
        if _has_desktop() if open_it is None else open_it:
            typer.launch(page)

    run(served, found, ready)


def _has_desktop() -> bool:
    """Whether someone sits at a terminal of a machine that can open a page."""
    drawn = sys.platform != "linux" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
    return sys.stdout.isatty() and drawn
