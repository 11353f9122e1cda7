"""Small pictures in terminals that can show them: kitty's protocol, and iTerm2's."""

import os
import sys
from base64 import b64encode
from collections.abc import Callable, Mapping
from io import BytesIO
from pathlib import Path

ROWS = 8
_SIDE = 256
_CHUNK = 4096


def protocol(environment: Mapping[str, str]) -> str | None:
    """Which of the two protocols a terminal speaks, by what it says of itself; None inside a multiplexer."""
    if environment.get("TERM", "").startswith(("screen", "tmux")) or "TMUX" in environment:
        return None
    program = environment.get("TERM_PROGRAM", "")
    if "KITTY_WINDOW_ID" in environment or program == "ghostty" or environment.get("TERM") == "xterm-kitty":
        return "kitty"
    if program in ("iTerm.app", "WezTerm", "mintty") or environment.get("LC_TERMINAL") == "iTerm2":
        return "iterm2"
    return None


def thumbnail_writer(wanted: bool | None) -> Callable[[Path], None] | None:
    """What shows a photo on stdout, or None: by default only in a terminal that says that it can."""
    spoken = protocol(os.environ)
    if wanted is False or (wanted is None and (spoken is None or not sys.stdout.isatty())):
        return None

    def show(path: Path) -> None:
        from smlstm.errors import InputError  # noqa: PLC0415 - torch takes seconds, --help should not
        from smlstm.vision.shown_photo import shown  # noqa: PLC0415

        try:
            photo = shown(path, _SIDE)
        except InputError:  # it has gone, or was damaged, since it was indexed
            return
        file = BytesIO()
        photo.save(file, "PNG")
        sys.stdout.write(encode(file.getvalue(), spoken or "kitty") + "\n")
        sys.stdout.flush()

    return show


def encode(png: bytes, spoken: str) -> str:
    """A picture as the characters that a terminal shows as one."""
    data = b64encode(png).decode()
    if spoken == "iterm2":
        return f"\033]1337;File=inline=1;size={len(png)};height={ROWS};preserveAspectRatio=1:{data}\a"
    parts = [data[start : start + _CHUNK] for start in range(0, len(data), _CHUNK)]
    first = f"a=T,f=100,r={ROWS},q=2,"
    return "".join(
        f"\033_G{first if number == 0 else ''}m={int(number < len(parts) - 1)};{part}\033\\"
        for number, part in enumerate(parts)
    )
