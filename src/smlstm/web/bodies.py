"""How much may arrive: the bytes of a request, the time it takes, and the bytes of all that arrive at once."""

import asyncio
from collections.abc import Callable

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from smlstm.web.problems import problem
from smlstm.web.settings import MEGABYTE, Settings
from smlstm.web.work import RETRY_SECONDS

UPLOADS = "/api/v1/uploads/"


class _TooLarge(Exception):
    pass


class _TooSlow(Exception):
    pass


class Bodies:
    """Reads no more of a request than is allowed, whatever its headers say."""

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self.app, self.settings = app, settings
        self._arriving = 0  # bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or answer it."""
        if scope["type"] != "http" or scope["method"] in ("GET", "HEAD", "OPTIONS"):
            await self.app(scope, receive, send)
            return
        most = self.settings.upload_bytes if scope["path"].startswith(UPLOADS) else self.settings.json_bytes
        size = _said(Headers(scope=scope))
        if size is not None and size > most:
            await _too_large(most)(scope, receive, send)
            return
        size = most if size is None else size
        if self._arriving and self._arriving + size > self.settings.arriving_bytes:
            later = {"Retry-After": str(RETRY_SECONDS)}
            await problem(503, "too many requests arrive at once: try again", headers=later)(scope, receive, send)
            return
        self._arriving += size
        reading = _Reading(receive, most, self.settings.body_seconds, lambda: self._arrived(size))
        started = False

        async def watched(message: Message) -> None:
            nonlocal started
            if started or not reading.refused:  # the framework turns what stopped it into an answer of its own
                started = True
                await send(message)

        try:
            await self.app(scope, reading, watched)
        except (_TooLarge, _TooSlow):
            pass
        finally:
            reading.end()
        if reading.refused and not started:
            answer = _too_large(most) if reading.refused == 413 else problem(408, "the request took too long to arrive")
            await answer(scope, receive, send)

    def _arrived(self, size: int) -> None:
        self._arriving -= size


class _Reading:
    """Hands on what arrives, and counts."""

    def __init__(self, receive: Receive, most: int, seconds: float, arrived: Callable[[], None]) -> None:
        self._receive, self._most, self._arrived = receive, most, arrived
        self._until = asyncio.get_running_loop().time() + seconds
        self._bytes, self._whole = 0, False
        self.refused = 0

    async def __call__(self) -> Message:
        if self._whole:
            return await self._receive()
        left = self._until - asyncio.get_running_loop().time()
        try:
            message = await asyncio.wait_for(self._receive(), max(left, 0.001))
        except (TimeoutError, asyncio.TimeoutError):
            self.refused = 408
            raise _TooSlow from None
        self._bytes += len(message.get("body", b""))
        if self._bytes > self._most:
            self.refused = 413
            raise _TooLarge
        if not message.get("more_body"):
            self.end()
        return message

    def end(self) -> None:
        """Nothing more is to arrive: another request may."""
        if not self._whole:
            self._whole = True
            self._arrived()


def _said(headers: Headers) -> int | None:
    """The size that a request says to have; None if it does not say."""
    length = headers.get("content-length", "")
    return int(length) if length.isascii() and length.isdigit() and len(length) < 20 else None


def _too_large(most: int) -> Response:
    size = f"{most / MEGABYTE:g} MB" if most >= MEGABYTE else f"{most} bytes"
    return problem(413, f"the request is larger than {size}", exit_code=3, headers={"Connection": "close"})
