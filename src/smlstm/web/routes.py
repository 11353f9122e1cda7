"""The API's addresses: each waits for its turn, and hands on to the service."""

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import ValidationError

from smlstm import __version__
from smlstm.errors import InputError
from smlstm.web import answers, questions
from smlstm.web.problems import ProblemAnswer
from smlstm.web.questions import Date, PhotoId
from smlstm.web.service import Service

API = "/api/v1"
PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"model": ProblemAnswer, "description": about}
    for status, about in {
        400: "not understood",
        401: "the token is missing",
        403: "refused",
        404: "there is no such photo",
        408: "took too long to arrive",
        409: "another indexing is under way",
        413: "too large",
        422: "cannot be worked on",
        503: "busy, or the library is not there any more: come back after `Retry-After` seconds",
    }.items()
}
_FOREVER = {"Cache-Control": "private, max-age=31536000, immutable"}  # a photo's name is the hash of its content
_Id = Annotated[str, Path(pattern=r"^[0-9a-f]{16}$", description="A photo, as other answers name it.")]
_Asked = Annotated[str, Query(min_length=1, max_length=1000)]


def client(request: Request) -> str:
    """Whose question it is, for taking turns."""
    return request.client.host if request.client else ""


def make_routes(service: Service) -> APIRouter:
    """All addresses but those for uploads."""
    routes = APIRouter(prefix=API, responses=PROBLEMS)
    _add_asking(routes, service)
    _add_photos(routes, service)
    _add_library(routes, service)
    return routes


def _add_asking(routes: APIRouter, service: Service) -> None:
    work = service.work

    @routes.post("/search")
    async def search(request: Request, question: questions.Question) -> answers.SearchAnswer:
        """Find the photos that match, the best first."""
        with service.read_ahead.announced(question.sentences):
            return await work.run(client(request), service.search, question)

    @routes.post("/search/batch")
    async def search_batch(request: Request, asked: questions.Questions) -> answers.SearchAnswers:
        """Ask several questions at once; they take their turns one by one."""
        with service.read_ahead.announced([each for question in asked.questions for each in question.sentences]):
            found = [await work.run(client(request), service.search, question) for question in asked.questions]
        return answers.SearchAnswers(answers=found)

    @routes.post("/score")
    async def score(request: Request, pairs: questions.Pairs) -> answers.ScoreAnswer:
        """Tell how well photos of the library and sentences match, each with each."""
        return await work.run(client(request), service.score, pairs)

    @routes.post("/explain")
    async def explain(request: Request, pairs: questions.FewPairs) -> answers.ExplainAnswer:
        """Tell where the model looked, step by step, for each photo with each sentence."""
        return await work.run(client(request), service.explain, pairs)

    @routes.post("/annotate")
    async def annotate(request: Request, naming: questions.Naming) -> answers.NameAnswer:
        """Rank sentences for photos of the library."""
        return await work.run(client(request), service.name, naming)


def _add_photos(routes: APIRouter, service: Service) -> None:
    @routes.get("/photos")
    async def photos(
        request: Request,
        *,
        offset: Annotated[int, Query(ge=0, le=10_000_000)] = 0,
        limit: Annotated[int, Query(ge=1, le=100)] = 24,
        folder: Annotated[list[PhotoId] | None, Query(max_length=16)] = None,
        path: Annotated[list[str] | None, Query(max_length=8)] = None,
        since: Annotated[Date | None, Query()] = None,
        until: Annotated[Date | None, Query()] = None,
    ) -> answers.PhotoList:
        """List photos, the newest first."""
        try:
            where = questions.Where(folders=tuple(folder or ()), paths=tuple(path or ()), since=since, until=until)
        except ValidationError as error:
            raise InputError(f"path: {error.errors()[0]['msg']}") from None
        return await service.work.run(client(request), service.newest, where, offset, limit)

    @routes.get("/photos/{photo}")
    async def photo(request: Request, photo: _Id) -> answers.Photo:
        """Tell what is known of a photo."""
        return await service.drawing.run(client(request), service.photo, photo)

    def add_picture(size: str, about: str) -> None:
        @routes.get(f"/photos/{{photo}}/{size}", response_class=Response, responses=_is("image/jpeg"), name=size)
        async def picture(request: Request, photo: _Id) -> Response:
            data = await service.drawing.run(client(request), service.picture, photo, size)
            return Response(data, media_type="image/jpeg", headers=_FOREVER)

        picture.__doc__ = about

    add_picture("thumbnail", "A photo, at most 320 pixels wide and high.")
    add_picture("picture", "A photo, at most 1600 pixels wide and high.")

    @routes.get("/photos/{photo}/explanation.png", response_class=Response, responses=_is("image/png"))
    async def explanation(request: Request, photo: _Id, sentence: _Asked) -> Response:
        """Where the model looked, as a picture to keep."""
        data = await service.work.run(client(request), service.explanation_picture, photo, sentence)
        headers = {"Content-Disposition": 'attachment; filename="explanation.png"'}
        return Response(data, media_type="image/png", headers=headers)


def _add_library(routes: APIRouter, service: Service) -> None:
    @routes.get("/library")
    async def library(request: Request) -> answers.LibraryState:
        """Tell what the library holds and how far indexing is."""
        return await service.drawing.run(client(request), service.state)

    @routes.get("/library/skipped")
    async def skipped(
        request: Request,
        offset: Annotated[int, Query(ge=0, le=10_000_000)] = 0,
        limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    ) -> answers.SkippedFiles:
        """List files that cannot be used, and why."""
        return await service.drawing.run(client(request), service.served.skipped, offset, limit)

    @routes.post("/library/index", status_code=202)
    async def index(asked: questions.Reindexing) -> answers.Indexing:
        """Bring the library in step with its folders, in the background; which these are, the command line says."""
        service.indexing.start(service.settings.folders, retry=asked.retry)
        return service.indexing.state()

    @routes.get("/health")
    async def health() -> answers.Health:
        """Tell whether the server is there; needs no token."""
        return answers.Health(status="ok", version=__version__)


def _is(kind: str) -> dict[int | str, dict[str, Any]]:
    return {200: {"content": {kind: {"schema": {"type": "string", "format": "binary"}}}}}
