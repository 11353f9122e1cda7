"""Who may ask: the right name of this server, no other site's page, and the token where one is needed.

A page of another site can make a browser send requests to this machine, and by DNS rebinding even read the answers.
So the Host must be a name of ours, an Origin must be the page of that very Host, and what a browser marks as coming
from another site is refused, except for a link to the page.
"""

import hmac
import ipaddress
import socket
from http.cookies import CookieError, SimpleCookie
from importlib.resources import files
from urllib.parse import parse_qs

from starlette.datastructures import Headers
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from smlstm.web.problems import problem
from smlstm.web.settings import Settings

HEALTH = "/api/v1/health"
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})
_OPEN_SITES = frozenset({"", "same-origin", "none"})
_ASK_FOR_TOKEN = files("smlstm.web").joinpath("token.html").read_text(encoding="utf-8")


class Gate:
    """Refuses who may not ask, before anything is read of what they ask."""

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self.app, self.settings = app, settings
        self._names = _LOOPBACK | {name.lower() for name in settings.hosts}
        if not settings.is_loopback:
            own = socket.gethostname().lower()
            self._names |= {settings.host.lower(), own, f"{own.partition('.')[0]}.local"}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or answer it."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":  # nothing here speaks anything else, and no other check would see it
            await send({"type": "websocket.close", "code": 1008})
            return
        refusal = self._refusal(scope, Headers(scope=scope))
        await (refusal or self.app)(scope, receive, send)

    def _refusal(self, scope: Scope, headers: Headers) -> Response | None:
        if len(headers.getlist("host")) != 1 or not self._is_ours(headers["host"]):
            return problem(403, "this server does not go by that name: --allow-host NAME lets it", exit_code=3)
        if not _same_site(scope, headers):
            return problem(403, "requests from pages of other sites are refused", exit_code=3)
        return self._without_token(scope, headers) if self.settings.token else None

    def _is_ours(self, host: str) -> bool:
        name = host_name(host)
        return name in self._names or (not self.settings.is_loopback and _is_address(name))

    def _without_token(self, scope: Scope, headers: Headers) -> Response | None:
        """What to answer who does not show the token; None if it was shown."""
        path = scope["path"]
        if path in (HEALTH, "/assets/style.css"):
            return None
        cookie = self._cookie_name(headers)
        scheme, _, shown = headers.get("authorization", "").partition(" ")
        if (scheme.lower() == "bearer" and self._fits(shown.strip())) or self._fits(_cookie(headers, cookie)):
            return None
        if path == "/":
            given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
            if self._fits(given):
                # Out of the address, where it would stay in the history and be passed on with links.
                answer = RedirectResponse("/", 303)
                answer.set_cookie(
                    cookie, given, httponly=True, samesite="strict", secure=scope["scheme"] == "https", path="/"
                )
                return answer
            return HTMLResponse(_ASK_FOR_TOKEN, 401)
        message = "this server wants a token: send it as `Authorization: Bearer TOKEN`"
        return problem(401, message, exit_code=3, headers={"WWW-Authenticate": "Bearer"})

    def _cookie_name(self, headers: Headers) -> str:
        # Cookies do not tell ports apart: two servers on one machine must not take each other's.
        port = headers["host"].rpartition(":")[2]
        return f"smlstm_{port}" if port.isdigit() else "smlstm"

    def _fits(self, given: str) -> bool:
        assert self.settings.token is not None
        return hmac.compare_digest(given.encode("utf-8", "replace"), self.settings.token.encode("utf-8"))


def host_name(host: str) -> str:
    """The name in a Host header, without its port and in small letters; empty if it is no name."""
    name, colon, port = host.rpartition(":") if not host.endswith("]") else (host, "", "")
    if not colon:
        name, port = host, ""
    if port and not port.isdigit():
        return ""
    return name.lower().removesuffix(".")


def _is_address(name: str) -> bool:
    """Whether a name is an address as it stands: no DNS is asked for it, so none can lie."""
    try:
        ipaddress.ip_address(name.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True


def _same_site(scope: Scope, headers: Headers) -> bool:
    origin = headers.get("origin")
    if origin is not None and origin.lower() not in {f"{kind}://{headers['host'].lower()}" for kind in _schemes(scope)}:
        return False
    if headers.get("sec-fetch-site", "").lower() in _OPEN_SITES:
        return True
    link = headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
    return bool(link and scope["method"] == "GET" and scope["path"] == "/")


def _schemes(scope: Scope) -> tuple[str, ...]:
    """Behind a proxy that speaks TLS, the browser's page is https and what arrives here is http."""
    return ("https",) if scope["scheme"] == "https" else ("http", "https")


def _cookie(headers: Headers, name: str) -> str:
    try:
        found = SimpleCookie(headers.get("cookie", "")).get(name)
    except CookieError:
        return ""
    return found.value if found else ""
