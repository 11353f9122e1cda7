"""The API's addresses for photos that are not in the library; what is sent is never kept."""

from typing import Annotated

from fastapi import APIRouter, File, Form, Request, UploadFile

from smlstm.web import answers, uploads
from smlstm.web.questions import Sentence
from smlstm.web.routes import API, PROBLEMS, client
from smlstm.web.service import Service
from smlstm.web.uploads import MOST_PHOTOS, Upload, file_name

_Photos = Annotated[
    list[UploadFile], File(min_length=1, max_length=MOST_PHOTOS, description="Photos in any format that is read.")
]
_Sentences = Annotated[list[Sentence] | None, Form(max_length=100, description="To choose from; one field each.")]


def make_upload_routes(service: Service) -> APIRouter:
    """The addresses below `/uploads`."""
    routes = APIRouter(prefix=f"{API}/uploads", responses=PROBLEMS)

    @routes.post("/annotate")
    async def annotate(
        request: Request,
        photos: _Photos,
        sentences: _Sentences = None,
        k: Annotated[int, Form(ge=1, le=100)] = 5,
        explain: Annotated[bool, Form()] = False,
    ) -> answers.NameAnswer:
        """Rank sentences for photos that are sent."""
        sent = await _read(photos)
        return await service.work.run(client(request), uploads.name, service, sent, sentences, k, explain)

    @routes.post("/score")
    async def score(
        request: Request, photos: _Photos, sentences: Annotated[list[Sentence], Form(min_length=1, max_length=100)]
    ) -> answers.ScoreAnswer:
        """Tell how well photos that are sent and sentences match, each with each."""
        return await service.work.run(client(request), uploads.score, service, await _read(photos), sentences)

    return routes


async def _read(photos: list[UploadFile]) -> list[Upload]:
    return [(file_name(photo.filename, number), await photo.read()) for number, photo in enumerate(photos)]
