"""Where the library lies: the folder that is asked for, `SMLSTM_LIBRARY`, else the user's own data folder."""

import os
import sys
from pathlib import Path


def library_folder(chosen: str | Path | None = None) -> Path:
    """Name the library's folder, absolute."""
    if chosen is not None:
        return Path(chosen).expanduser().absolute()
    if named := os.environ.get("SMLSTM_LIBRARY"):
        return Path(named).expanduser().absolute()
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA", str(Path.home())))
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Application Support"
    else:
        base = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")
    return base / "smlstm" / "library"
