"""The application: routes, within limits, behind a gate, watched."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from fastapi import FastAPI, Response

from smlstm import __version__
from smlstm.web.body_limits import Bodies
from smlstm.web.gate import Gate
from smlstm.web.metrics import Metrics
from smlstm.web.page_files import make_page
from smlstm.web.problems import answer_problems
from smlstm.web.request_log import Watching
from smlstm.web.routes import API, make_routes
from smlstm.web.service import Service
from smlstm.web.settings import Settings
from smlstm.web.upload_routes import make_upload_routes

if TYPE_CHECKING:
    from smlstm.search import Library

_ABOUT = """Find photos by sentences, name photos, and see where the model looked.

A photo's id is the hash of its content. Failures are answered as `{"error": {"code", "message", "exit_code"}}`.
When too much is asked at once the answer is 503 with `Retry-After`."""


def create_app(library: "Library", settings: Settings | None = None, *, index: bool = False) -> FastAPI:
    """Make an ASGI application of a library; `index` brings it in step with its folders at the start."""
    settings = settings or Settings()
    service = Service(library, settings)
    metrics = Metrics(service)

    @asynccontextmanager
    async def living(_: FastAPI) -> AsyncIterator[None]:
        if index:
            service.indexing.start(settings.folders)
        try:
            yield
        finally:
            service.close()

    app = FastAPI(
        title="smlstm",
        version=__version__,
        description=_ABOUT,
        openapi_url=f"{API}/openapi.json",
        docs_url=None,  # both would fetch scripts from elsewhere
        redoc_url=None,
        lifespan=living,
    )
    app.state.service = service
    app.include_router(make_routes(service))
    app.include_router(make_upload_routes(service))
    app.include_router(make_page())

    @app.get("/metrics", include_in_schema=False)
    def read_metrics() -> Response:
        return Response(metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    answer_problems(app)
    app.add_middleware(Bodies, settings=settings)
    app.add_middleware(Gate, settings=settings)
    app.add_middleware(Watching, metrics=metrics)
    return app
