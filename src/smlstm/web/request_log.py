"""Around every request: a number by which it is found again, headers that keep the browser safe, a line in the log."""

import logging
import secrets
import time

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from smlstm.files import printable
from smlstm.web.logs import REQUESTS
from smlstm.web.metrics import Metrics
from smlstm.web.problems import problem

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
SAFE_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_log = logging.getLogger(REQUESTS)


class Watching:
    """The outermost part: whatever happens inside, the client gets an answer without a traceback."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self.app, self.metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and watch."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        start, number, status = time.perf_counter(), secrets.token_hex(8), 0

        async def marked(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                for name, value in SAFE_HEADERS.items():
                    headers.setdefault(name, value)
                headers.setdefault("Cache-Control", "no-store")
                headers["X-Request-Id"] = number
            await send(message)

        try:
            await self.app(scope, receive, marked)
        except Exception:
            _log.exception("request %s failed", number)
            if not status:
                await problem(500, f"something went wrong here; the log tells what, under {number}")(
                    scope, receive, marked
                )
        finally:
            self._write_down(scope, number, status, time.perf_counter() - start)

    def _write_down(self, scope: Scope, number: str, status: int, seconds: float) -> None:
        # By the route's pattern: names of photos would make a counter each.
        route = getattr(scope.get("route"), "path", "other")
        method = scope["method"] if scope["method"] in _METHODS else "other"
        self.metrics.count(method, route, status, seconds)
        facts = {
            "request": number,
            "method": scope["method"],
            "path": printable(scope["path"])[:200],
            "status": status,
            "milliseconds": round(1000 * seconds, 1),
            "client": (scope.get("client") or ("",))[0],
        }
        _log.info("%s %s %s", facts["method"], facts["path"], status, extra={"facts": facts})
