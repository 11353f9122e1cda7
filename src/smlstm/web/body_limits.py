"""How much may arrive: the bytes of a request, the time it takes, and the bytes of all that arrive at once."""

import asyncio

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from smlstm.web.problems import problem
from smlstm.web.settings import MEGABYTE, Settings
from smlstm.web.work import RETRY_SECONDS

UPLOADS = "/api/v1/uploads/"
_CLOSE = {"Connection": "close"}  # the rest of what was refused is not read


_SHARE_OF_QUESTIONS = 1 / 8


class _Refused(Exception):
    pass


class Bodies:
    """Reads no more of a request than is allowed, whatever its headers say.

    What counts of all that arrive is what has arrived, not what was announced; uploads and other requests are counted
    apart, so that photos on a slow line keep no question waiting.
    """

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self.app, self.settings = app, settings
        self._uploads = _Arriving(max(settings.upload_bytes, settings.arriving_bytes))
        self._questions = _Arriving(max(settings.json_bytes, int(_SHARE_OF_QUESTIONS * settings.arriving_bytes)))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or answer it."""
        if scope["type"] != "http" or scope["method"] in ("GET", "HEAD", "OPTIONS"):
            await self.app(scope, receive, send)
            return
        is_upload = scope["path"].startswith(UPLOADS)
        most = self.settings.upload_bytes if is_upload else self.settings.json_bytes
        size = _said(Headers(scope=scope))
        if size is not None and size > most:
            await _too_large(most)(scope, receive, send)
            return
        reading = _Reading(receive, most, self.settings, self._uploads if is_upload else self._questions)
        started = False

        async def watched(message: Message) -> None:
            nonlocal started
            if started or reading.refusal is None:  # the framework turns what stopped it into an answer of its own
                started = True
                await send(message)

        try:
            await self.app(scope, reading, watched)
        except _Refused:
            pass
        finally:
            reading.end()
        if reading.refusal is not None and not started:
            await reading.refusal(scope, receive, send)


class _Arriving:
    """Bytes of requests that are not whole yet."""

    def __init__(self, most: int) -> None:
        self.most, self.bytes = most, 0


class _Reading:
    """Hands on what arrives, and counts."""

    def __init__(self, receive: Receive, most: int, settings: Settings, arriving: _Arriving) -> None:
        self._receive, self._most, self._arriving = receive, most, arriving
        self._until = asyncio.get_running_loop().time() + settings.body_seconds
        self._patience = settings.idle_seconds
        self._bytes, self._counted, self._whole = 0, 0, False
        self.refusal: Response | None = None

    async def __call__(self) -> Message:
        if self._whole:
            return await self._receive()
        left = self._until - asyncio.get_running_loop().time()
        try:
            message = await asyncio.wait_for(self._receive(), max(min(left, self._patience), 0.001))
        except (TimeoutError, asyncio.TimeoutError):
            raise self._refuse(problem(408, "the request took too long to arrive", headers=_CLOSE)) from None
        new = len(message.get("body", b""))
        self._bytes += new
        if self._bytes > self._most:
            raise self._refuse(_too_large(self._most))
        if not message.get("more_body"):
            self.end()
        elif self._arriving.bytes + new > self._arriving.most:
            later = {"Retry-After": str(RETRY_SECONDS), **_CLOSE}
            raise self._refuse(problem(503, "too much arrives at once: try again", headers=later))
        else:
            self._arriving.bytes += new
            self._counted += new
        return message

    def _refuse(self, answer: Response) -> _Refused:
        self.refusal = answer
        return _Refused()

    def end(self) -> None:
        """Nothing more is to arrive: another request may."""
        self._whole = True
        self._arriving.bytes -= self._counted
        self._counted = 0


def _said(headers: Headers) -> int | None:
    """The size that a request says to have; None if it does not say."""
    length = headers.get("content-length", "")
    return int(length) if length.isascii() and length.isdigit() and len(length) < 20 else None


def _too_large(most: int) -> Response:
    size = f"{most / MEGABYTE:g} MB" if most >= MEGABYTE else f"{most} bytes"
    return problem(413, f"the request is larger than {size}", exit_code=3, headers=_CLOSE)
