"""The page's own files: a fixed few, read at the start, so that no address can name another."""

from importlib.resources import files

from fastapi import APIRouter, Request, Response

from smlstm.files import fingerprint

_KINDS = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


def make_page() -> APIRouter:
    """The page at `/`, and what it needs below `/assets`."""
    routes = APIRouter(include_in_schema=False)
    for entry in (files("smlstm.web") / "page").iterdir():
        kind = _KINDS.get(f".{entry.name.rpartition('.')[2]}")
        if kind is not None:
            address = "/" if entry.name == "index.html" else f"/assets/{entry.name}"
            _add(routes, address, entry.read_bytes(), kind)
    return routes


def _add(routes: APIRouter, address: str, data: bytes, kind: str) -> None:
    mark = f'"{fingerprint([data], 8)}"'
    headers = {"ETag": mark, "Cache-Control": "no-cache"}

    @routes.api_route(address, methods=["GET", "HEAD"], response_class=Response)
    async def asset(request: Request) -> Response:
        if request.headers.get("if-none-match") == mark:
            return Response(status_code=304, headers=headers)
        return Response(data, media_type=kind, headers=headers)
