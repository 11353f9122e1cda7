"""When to stop before the end: time is up, or someone pressed Ctrl-C."""

import signal
import threading
import time
from types import FrameType, TracebackType


class Stopping:
    """Asked between steps. The first Ctrl-C (or SIGTERM) ends the step in peace, the second one ends it at once."""

    def __init__(self, minutes: float | None = None) -> None:
        self._deadline = None if minutes is None else time.monotonic() + 60 * minutes
        self._signal: signal.Signals | None = None
        self._previous: dict[signal.Signals, object] = {}

    @property
    def interrupted(self) -> bool:
        """Whether someone asked to stop, rather than the clock."""
        return self._signal is not None

    @property
    def reason(self) -> str:
        """Why to stop now; empty: go on."""
        if self._signal is not None:
            return "interrupted"
        return "time is up" if self.seconds_left <= 0 else ""

    @property
    def seconds_left(self) -> float:
        """Until the deadline; infinite without one."""
        return float("inf") if self._deadline is None else self._deadline - time.monotonic()

    def __enter__(self) -> "Stopping":
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._previous[number] = signal.signal(number, self._note)
        return self

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self._signal is not None:
            raise KeyboardInterrupt
        self._signal = signal.Signals(number)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
