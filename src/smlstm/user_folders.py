"""Where smlstm keeps what belongs to a user: the library among the user's data, what can be made anew in the cache."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

from platformdirs import user_cache_path, user_data_path

from smlstm.errors import SmlstmError


class NoHome(SmlstmError, RuntimeError):
    """Nobody said where, and the system knows no home of the user."""

    def __init__(self, variable: str) -> None:
        super().__init__(f"this user has no home folder: name a folder with {variable}")


def data_folder() -> Path:
    """Name the folder of what must not be lost, by the system's custom."""
    before = _before("XDG_DATA_HOME", "Application Support")
    return before or _found(lambda: user_data_path("smlstm", appauthor=False), "SMLSTM_LIBRARY")


def cache_folder() -> Path:
    """Name the folder of the user's cache: `SMLSTM_CACHE`, else the system's custom."""
    if chosen := os.environ.get("SMLSTM_CACHE"):
        return Path(chosen)
    before = _before("XDG_CACHE_HOME", "Caches")
    return before or _found(lambda: user_cache_path("smlstm", appauthor=False, opinion=False), "SMLSTM_CACHE")


def _before(variable: str, on_macs: str) -> Path | None:
    """What an earlier version left, where platformdirs may say otherwise: it asks Windows, and heeds XDG on Macs."""
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA", "~")
    else:
        base = f"~/Library/{on_macs}" if sys.platform == "darwin" else os.environ.get(variable, "")
    folder = Path(os.path.expanduser(base)) / "smlstm"  # noqa: PTH111 (Path's own fails where there is no home)
    return folder if base and folder.is_dir() else None


def _found(find: Callable[[], Path], variable: str) -> Path:
    """What platformdirs says; without a home, some versions of it fail and some name a folder `~`."""
    try:
        folder = find()
    except RuntimeError:
        raise NoHome(variable) from None
    if not folder.is_absolute():
        raise NoHome(variable)
    return folder
