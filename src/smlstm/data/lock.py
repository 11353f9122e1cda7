"""One writer at a time: a lock that the operating system gives back when its process dies."""

import contextlib
import os
import sys
import threading
from pathlib import Path
from typing import Any

from smlstm.errors import SmlstmError

# The lock belongs to the process, so it cannot keep two writers of one process apart; this table does.
_held: dict[Path, "WriterLock"] = {}
_table = threading.Lock()


class Locked(SmlstmError):
    """Another process, or this one, is writing."""


class WriterLock:
    """A lock file with its writer's process number; the lock of a dead process is free again."""

    def __init__(self, path: Path) -> None:
        self.path = path.resolve()
        self._pid = os.getpid()
        with _table:
            self._take()

    def _take(self) -> None:
        other = _held.get(self.path)
        if other is not None and other.held:
            self._refuse("this process")
        file = self.path.open("a+b", buffering=0)
        try:
            _lock(file)
        except OSError:
            file.seek(0)
            writer = file.read(32).decode("ascii", "replace").strip()
            file.close()
            self._refuse(f"process {writer}")
        file.truncate(0)
        file.write(f"{os.getpid()}\n".encode("ascii"))
        self._file = file
        _held[self.path] = self

    @property
    def held(self) -> bool:
        """Whether this very process holds the lock: a forked child does not."""
        return _held.get(self.path) is self and self._pid == os.getpid()

    def _refuse(self, writer: str) -> None:
        raise Locked(f"{self.path.parent} is being written by {writer}: wait until it ends, or stop it")

    def release(self) -> None:
        """Give the lock back; a second call, or one in a forked child, does nothing."""
        with _table:
            if self.held:
                del _held[self.path]
                with contextlib.suppress(OSError):
                    self._file.truncate(0)
            self._file.close()


if sys.platform == "win32":
    import msvcrt

    def _lock(file: Any) -> None:
        # Beyond the process number, which others must be able to read.
        file.seek(1 << 20)
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        file.seek(0)

else:
    import fcntl

    # A child that is forked while another thread holds the table must not find it held for ever.
    os.register_at_fork(before=_table.acquire, after_in_parent=_table.release, after_in_child=_table.release)

    def _lock(file: Any) -> None:
        # Not flock: a forked worker would inherit it and keep it after its parent was killed.
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
