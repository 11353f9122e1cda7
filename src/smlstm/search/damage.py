"""Damage to a library, as one sentence: whatever Lance, Arrow or Rust say of it."""

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from smlstm.errors import SmlstmError

_NOT_DAMAGE = {errno.EACCES, errno.EPERM, errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EMFILE, errno.ENFILE}
_WHERE_IN_RUST = re.compile(r"^External error: |LanceError\(\w+\): |, /\S+\.rs:\d+:\d+")
_OS_ERROR = re.compile(r"\(os error (\d+)\)")


class DamagedLibrary(SmlstmError):
    """A file of the library is not as it was written; `smlstm library repair` mends it."""

    exit_code = 3

    def __init__(self, path: Path, what: str) -> None:
        self.finding = f"{path} is damaged ({what})"
        super().__init__(f"{self.finding}: run `smlstm library repair`, then `smlstm index`")


@contextmanager
def told_as_damage(path: Path) -> Iterator[None]:
    """Turn all that reading a damaged table can raise into `DamagedLibrary`.

    A full disk or a missing right is no damage and stays an `OSError`. Rust's panics derive from `BaseException`, of a
    class that cannot be imported.
    """
    try:
        yield
    except (SmlstmError, MemoryError):
        raise
    except Exception as error:
        number = _os_error(error)
        if number in _NOT_DAMAGE:
            raise OSError(number, os.strerror(number), str(path)) from error
        raise DamagedLibrary(path, first_line(error)) from error
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise DamagedLibrary(path, first_line(error)) from None


def first_line(error: BaseException) -> str:
    """What an error says, in a line that is not long and without where in Rust it was said."""
    said = _WHERE_IN_RUST.sub("", str(error).strip()).splitlines()
    return said[0][:120] if said else type(error).__name__


def _os_error(error: Exception) -> int | None:
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno
    found = _OS_ERROR.search(str(error))
    return int(found[1]) if found else None
