"""What goes wrong, as JSON: the sentence that the command line would print, never a traceback.

{"error": {"code": "input", "message": "...", "exit_code": 3}}
"""

import logging
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from smlstm.data.lock import Locked
from smlstm.errors import InputError, SmlstmError
from smlstm.files import printable
from smlstm.search.damage import DamagedLibrary
from smlstm.search.location import LibraryGone
from smlstm.web.work import RETRY_SECONDS, Busy

_CODES = {401: "token", 403: "refused", 404: "not_found", 405: "method", 413: "too_large", 503: "busy"}


class Problem(BaseModel):
    """What went wrong."""

    code: str = Field(
        description="input, not_found, busy, gone, locked, damaged, token, refused, too_large, method or failed"
    )
    message: str = Field(description="A sentence that says what was wrong and what to do.")
    exit_code: int = Field(description="What the command line would end with.")


class ProblemAnswer(BaseModel):
    """The answer to a request that failed."""

    error: Problem


class NotFound(SmlstmError):
    """There is no such photo, or there is none any more."""

    exit_code = 3


class TooLarge(InputError):
    """What was sent is more than a request may hold."""


def problem(
    status: int, message: str, *, code: str | None = None, exit_code: int = 1, headers: dict[str, str] | None = None
) -> JSONResponse:
    """The answer to a request that failed."""
    name = code or _CODES.get(status, "failed" if status >= 500 else "input")
    content = Problem(code=name, message=printable(message), exit_code=exit_code)
    return JSONResponse({"error": content.model_dump()}, status, headers)


_ANSWERS: dict[type[SmlstmError], tuple[int, str | None]] = {
    Busy: (503, "busy"),
    LibraryGone: (503, "gone"),
    NotFound: (404, None),
    Locked: (409, "locked"),
    DamagedLibrary: (500, "damaged"),
    TooLarge: (413, None),
    InputError: (422, None),
}
"""The first that fits counts: some are kinds of those below them."""


def answer_problems(app: FastAPI) -> None:
    """Make an application answer every failure in this form."""

    async def failed(_: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, SmlstmError)
        status, code = next((found for kind, found in _ANSWERS.items() if isinstance(error, kind)), (500, None))
        if status == 500:
            logging.getLogger(__name__).error("%s", printable(error))
        later = {"Retry-After": str(RETRY_SECONDS)} if status == 503 else None
        return problem(status, str(error), code=code, exit_code=error.exit_code, headers=later)

    async def not_valid(_: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, RequestValidationError)
        return problem(422, "; ".join(map(_sentence, error.errors()[:5])), exit_code=3)

    async def by_http(_: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, HTTPException)
        exit_code = 3 if error.status_code < 500 else 1
        return problem(
            error.status_code, str(error.detail), exit_code=exit_code, headers=dict(error.headers or {}) or None
        )

    app.add_exception_handler(SmlstmError, failed)
    app.add_exception_handler(RequestValidationError, not_valid)
    app.add_exception_handler(HTTPException, by_http)


def _sentence(found: Any) -> str:
    """One mistake in a request, without the value: it may be large, or no valid text."""
    place = ".".join(str(part) for part in found["loc"] if part not in ("body", "query", "path"))
    return f"{place[:100] or 'the request'}: {found['msg']}"
