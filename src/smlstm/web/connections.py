"""Who is connected: so many in all, so many of one client, and nobody who keeps the server waiting for long.

A connection that the server waits for (for a request's head, for more of its body, for an answer to be taken) holds a
place without asking anything. It is closed when it lets the server wait too long, and before that when someone new
needs its place: who has been waited for the longest goes first. So connections that say nothing, however many there
are, cannot keep out one that does.
"""

import asyncio
import ipaddress
import logging
from collections import Counter
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from smlstm.web.problems import problem
from smlstm.web.settings import Settings
from smlstm.web.work import RETRY_SECONDS

_SECONDS_BETWEEN_TELLING = 60
_OTHER_FILES = 256
"""Descriptors that the library's tables, photos and pipes may need."""
_log = logging.getLogger(__name__)


class Crowd:
    """All connections of a server, and those of them that it waits for."""

    def __init__(self, most: int, most_each: int) -> None:
        self.most, self.most_each = most, most_each
        self._there: dict[Connection, str] = {}
        self._counts: Counter[str] = Counter()
        self._awaited: dict[Connection, None] = {}  # since the longest first

    def __len__(self) -> int:
        return len(self._there)

    def admit(self, new: "Connection", client: str) -> bool:
        """Take a connection in, if need be for one that is waited for; False if all of them are being answered."""
        each = self.most if _is_here(client) else self.most_each
        if self._counts[client] >= each and not self._let_go(client):
            return False
        if len(self._there) >= self.most and not self._let_go(None):
            return False
        self._there[new] = client
        self._counts[client] += 1
        return True

    def _let_go(self, client: str | None) -> bool:
        oldest = next((each for each in self._awaited if client in (None, self._there[each])), None)
        if oldest is None:
            return False
        self.leave(oldest)  # at once: its end is only told in the loop's next turn
        oldest.transport.abort()
        return True

    def wait_for(self, one: "Connection", waiting: bool) -> None:
        """Note that the server waits for a connection, or no longer does."""
        if not waiting:
            self._awaited.pop(one, None)
        elif one in self._there:
            self._awaited.setdefault(one)

    def leave(self, one: "Connection") -> None:
        """Let a connection go; a second time does nothing."""
        self._awaited.pop(one, None)
        client = self._there.pop(one, None)
        if client is not None:
            self._counts[client] -= 1
            if not self._counts[client]:
                del self._counts[client]


class Connection(H11Protocol):
    """uvicorn's HTTP/1.1 with an end to its patience, which it has only between two requests."""

    crowd: Crowd
    seconds: float

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._timer: asyncio.TimerHandle | None = None
        self._unsent, self._held_up = 0, False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin, if there is a place."""
        super().connection_made(transport)
        if self.crowd.admit(self, client_of(self.client[0] if self.client else "")):
            self._settle()
        else:
            transport.write(_REFUSAL)
            transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Free the place."""
        self.crowd.leave(self)
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take a part of a request."""
        if not self.transport.is_closing():
            super().data_received(data)
            self._settle()

    def on_response_complete(self) -> None:
        """Be ready for the next request."""
        super().on_response_complete()
        self._settle()

    def pause_writing(self) -> None:
        """More is to be sent than the other side takes."""
        super().pause_writing()
        self._held_up = True
        self._settle()

    def resume_writing(self) -> None:
        """The other side has caught up."""
        super().resume_writing()
        self._held_up = False
        self._settle()

    def _settle(self) -> None:
        """See whose turn it is; the body of a request has a time limit of its own, where it is read."""
        idle = self.cycle is None or self.cycle.response_complete
        arriving = self.conn.their_state in (h11.IDLE, h11.SEND_BODY)
        self.crowd.wait_for(self, idle or arriving or self._held_up)
        if not (idle or self._held_up):
            self._stop_timer()
        elif self._timer is None and not self.transport.is_closing():
            self._unsent = self.transport.get_write_buffer_size()
            self._timer = self.loop.call_later(self.seconds, self._out_of_time)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _out_of_time(self) -> None:
        self._timer = None
        if 0 < self.transport.get_write_buffer_size() < self._unsent:  # slow, but it takes what it asked for
            self._settle()
        else:
            self.transport.abort()


def connections_within(settings: Settings, accepted_at_once: int) -> type[Connection]:
    """uvicorn's protocol with a server's limits, for as many connections as this process may have files."""
    # Those accepted in one turn of the loop are refused in the next, and their files closed in the one after.
    most = min(settings.connections, _allowed_files(settings.connections, _OTHER_FILES + 3 * accepted_at_once))
    crowd = Crowd(most, min(most, settings.connections_each))
    return type("Connection", (Connection,), {"crowd": crowd, "seconds": settings.idle_seconds})


def _allowed_files(wanted: int, beside: int) -> int:
    """How many connections this process may hold beside other files, after it has asked for more if need be."""
    try:
        import resource  # noqa: PLC0415 - not on Windows, which has no such limit
    except ImportError:
        return wanted
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted + beside:
        more = wanted + beside if hard == resource.RLIM_INFINITY else min(wanted + beside, hard)
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (more, hard))
            soft = more
        except (OSError, ValueError):
            pass
    return wanted if soft == resource.RLIM_INFINITY else max(soft // 4, soft - beside)


class Quiet:
    """The event loop's failures, those by lack of files once a minute: asyncio tells hundreds of them a second."""

    def __init__(self) -> None:
        self._told = float("-inf")

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Log a failure."""
        if "out of system resource" not in context.get("message", ""):
            loop.default_exception_handler(context)
        elif loop.time() - self._told >= _SECONDS_BETWEEN_TELLING:
            self._told = loop.time()
            _log.error("a connection could not be taken: %s", context.get("exception"))


def client_of(host: str) -> str:
    """Whom an address stands for: one of IPv6 for its network of 64 bits, which one household has to itself."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv4Address) or address.is_loopback:
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((address, 64), strict=False).network_address)


def _is_here(client: str) -> bool:
    """Whether a client is this machine, where a proxy may speak for everyone."""
    try:
        return ipaddress.ip_address(client).is_loopback
    except ValueError:
        return not client


def _refusal() -> bytes:
    answer = problem(503, "too many connections: try again", headers={"Retry-After": str(RETRY_SECONDS)})
    lines = [b"HTTP/1.1 503 Service Unavailable", b"connection: close"]
    lines += [name + b": " + value for name, value in answer.raw_headers]
    return b"\r\n".join([*lines, b"", bytes(answer.body)])


_REFUSAL = _refusal()
