"""Where the library lies: the folder that is asked for, `SMLSTM_LIBRARY`, else the user's own data folder."""

import os
from pathlib import Path

from smlstm.errors import SmlstmError
from smlstm.user_folders import data_folder


class LibraryGone(SmlstmError):
    """The library, or a part of it, was there and is not any more."""

    exit_code = 3

    def __init__(self, folder: Path) -> None:
        super().__init__(
            f"the library in {folder} is not there any more, or not as a whole: "
            "bring it back, or make it anew with `smlstm index FOLDER`"
        )


class ReadOnlyLibrary(SmlstmError):
    """The library can be read and not written."""

    def __init__(self, folder: Path, error: OSError) -> None:
        super().__init__(f"the library in {folder} cannot be written ({error.strerror or error})")


def library_folder(chosen: str | Path | None = None) -> Path:
    """Name the library's folder, absolute."""
    if chosen is not None:
        return Path(chosen).expanduser().absolute()
    if named := os.environ.get("SMLSTM_LIBRARY"):
        return Path(named).expanduser().absolute()
    return data_folder() / "library"
