"""Work in turn: so many questions at once, so many waiting, and no client ahead of all others.

Who waits is served client by client in turn, so that a hundred questions of one do not delay the first of another.
Beyond the places to wait a question is refused at once, with the advice to come back.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from smlstm.errors import SmlstmError

RETRY_SECONDS = 1
Result = TypeVar("Result")


class Busy(SmlstmError):
    """There is no place to wait in; come back later."""


class Queue:
    """A few threads, and the clients that wait for one."""

    def __init__(self, workers: int, waiting: int, waiting_each: int, name: str = "work") -> None:
        self.workers, self.most_waiting, self.most_each = workers, waiting, waiting_each
        self.running = self.waiting = self.refused = 0
        self._clients: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix=name)

    async def run(self, client: str, work: Callable[..., Result], *arguments: object) -> Result:
        """Do some work in a thread when it is this client's turn; what it raises is raised here."""
        await self._turn(client)
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, lambda: work(*arguments))
        finally:
            self._next()

    async def _turn(self, client: str) -> None:
        if self.running < self.workers and not self.waiting:
            self.running += 1
            return
        line = self._clients.get(client, deque())
        if self.waiting >= self.most_waiting or len(line) >= self.most_each:
            self.refused += 1
            raise Busy(f"the server is busy: {self.waiting} questions wait already; try again in {RETRY_SECONDS} s")
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        line.append(place)
        self._clients[client] = line
        self.waiting += 1
        try:
            await place  # the thread of who has finished is handed over: `running` stays as it is
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():
                self._next()
            else:
                self._leave(client, place)
            raise

    def _leave(self, client: str, place: "asyncio.Future[None]") -> None:
        line = self._clients.get(client, deque())
        if place in line:  # else its turn had come, and was passed on
            line.remove(place)
            self.waiting -= 1
            if not line:
                del self._clients[client]

    def _next(self) -> None:
        """Give the thread to the client whose turn it is, or let it rest."""
        while self._clients:
            client, line = self._clients.popitem(last=False)
            place = line.popleft()
            self.waiting -= 1
            if line:
                self._clients[client] = line  # behind all others
            if not place.done():
                place.set_result(None)
                return
        self.running -= 1

    def close(self) -> None:
        """Let what runs finish, and start nothing more."""
        self._pool.shutdown(wait=True, cancel_futures=True)
