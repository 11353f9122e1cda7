"""Taking photos in while the page is there: a thread that writes, and how far it is."""

import logging
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from smlstm.data.lock import Locked
from smlstm.errors import SmlstmError
from smlstm.files import printable
from smlstm.web.answers import Indexing

if TYPE_CHECKING:
    from smlstm.search import Library
    from smlstm.search.indexing import Outcome

_log = logging.getLogger(__name__)


class _Stopped(Exception):
    pass


class Background:
    """Brings a library in step with its folders, one run at a time."""

    def __init__(self, library: "Library") -> None:
        self._library = library
        self._guard = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()
        self._outcome: Outcome | None = None
        self._failed: str | None = None

    def start(self, folders: Sequence[str] = (), *, retry: bool = False) -> None:
        """Begin; refused while a run is under way."""
        with self._guard:
            if self._thread is not None and self._thread.is_alive():
                raise Locked("photos are being taken in already: wait until that is done")
            self._outcome, self._failed = None, None
            self._stop.clear()
            self._thread = threading.Thread(target=self._run, args=(tuple(folders), retry), name="indexing")
            self._thread.start()

    def _run(self, folders: tuple[str, ...], retry: bool) -> None:
        try:
            outcome = self._library.beside().index(*folders, retry=retry, watch=self._watch)
            for note in outcome.notes:
                _log.warning("%s", printable(note))
        except _Stopped:
            _log.info("indexing was stopped: what was stored stays")
        except SmlstmError as error:
            self._failed = printable(error)
            _log.warning("indexing ended: %s", self._failed)
        except Exception:
            self._failed = "indexing failed; the log tells why"
            _log.exception("indexing failed")

    def _watch(self, outcome: "Outcome") -> None:
        self._outcome = outcome
        if self._stop.is_set():
            raise _Stopped

    def state(self) -> Indexing:
        """How far it is."""
        running = self._thread is not None and self._thread.is_alive()
        outcome = self._outcome
        if outcome is None:
            return Indexing(running=running, failed=self._failed)
        return Indexing(
            running=running,
            done=outcome.done,
            total=outcome.total,
            new=outcome.new,
            skipped=len(outcome.skipped),
            unreachable=len(outcome.unreachable),
            notes=[printable(note) for note in outcome.notes],
            failed=self._failed,
        )

    def stop(self) -> None:
        """End a run after the photos at work; the next one continues there."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
