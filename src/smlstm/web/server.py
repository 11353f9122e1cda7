"""Running the application: one address, until someone says stop, and then in good order."""

import asyncio
import contextlib
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from types import FrameType

import torch
import uvicorn
from fastapi import FastAPI

from smlstm.errors import SmlstmError
from smlstm.web.connections import Quiet, connections_within

_SECONDS_TO_FINISH = 15
_PATIENT_CONNECTIONS = 128


class _Server(uvicorn.Server):
    """Ends at the first signal in good order, and at the second one at once; being stopped is no failure."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Take signals while the server runs; Python lets only the main thread do so."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {each: signal.signal(each, self.handle_exit) for each in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """End in good order, or, for who asks again, at once: work under way may take longer than one likes."""
        if self.should_exit:
            os._exit(128 + sig)
        super().handle_exit(sig, frame)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen."""
        asyncio.get_running_loop().set_exception_handler(Quiet())
        await super().startup(sockets)
        if self.started:
            self._ready()


def listen(host: str, port: int) -> socket.socket:
    """Take an address; port 0 takes any that is free."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        found = socket.socket(family, kind, protocol)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(address)
    except OSError as error:
        raise SmlstmError(
            f"cannot listen on {host}, port {port} ({error.strerror or error}): choose with --host and --port; "
            "port 0 takes any that is free"
        ) from None
    return found


def address_of(found: socket.socket) -> str:
    """Where a browser finds the server."""
    host, port = found.getsockname()[:2]
    if host in ("0.0.0.0", "::"):
        host = socket.gethostname()
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


def run(app: FastAPI, found: socket.socket, ready: Callable[[], None]) -> None:
    """Serve until a signal; `ready` is called when the first request can come."""
    # As many questions at once as there are cores: each on one. Two that spread over all cores wait for each other.
    torch.set_num_threads(1)
    config = uvicorn.Config(
        app,
        http=connections_within(app.state.service.settings, _PATIENT_CONNECTIONS),
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        ws="none",
        timeout_keep_alive=10,
        timeout_graceful_shutdown=_SECONDS_TO_FINISH,
        backlog=_PATIENT_CONNECTIONS,
        lifespan="on",
    )
    asyncio.run(_Server(config, ready).serve([found]))
