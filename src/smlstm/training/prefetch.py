"""Read the next batches while the current one is worked on."""

import queue
import threading
from collections.abc import Callable, Generator, Iterable
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def prefetch(items: Iterable[Item], read: Callable[[Item], Result], depth: int = 2) -> Generator[Result, None, None]:
    """Give `read(item)` for each item in order, up to `depth` of them read ahead by a thread."""
    waiting: queue.Queue[tuple[bool, Result | BaseException | None]] = queue.Queue(maxsize=depth)
    stopped = threading.Event()

    def put(done: bool, value: "Result | BaseException | None") -> None:
        while not stopped.is_set():
            try:
                waiting.put((done, value), timeout=0.1)
                return
            except queue.Full:
                continue

    def work() -> None:
        try:
            for item in items:
                if stopped.is_set():
                    return
                put(False, read(item))
            put(True, None)
        except BaseException as error:
            put(True, error)

    thread = threading.Thread(target=work, daemon=True, name="prefetch")
    thread.start()
    try:
        while True:
            done, value = waiting.get()
            if done:
                if value is not None:
                    raise value  # type: ignore[misc]
                return
            yield value  # type: ignore[misc]
    finally:
        stopped.set()
        thread.join()
