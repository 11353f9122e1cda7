"""Dates as people type them: a year, a month or a day, whole."""

import re
from datetime import datetime, timedelta

from smlstm.errors import InputError

_FORM = re.compile(r"(\d{4})(?:-(\d{1,2})(?:-(\d{1,2}))?)?")


def first_moment(text: str) -> datetime:
    """When a year, month or day begins: 2024, 2024-05 or 2024-05-31."""
    return _span(text)[0]


def moment_after(text: str) -> datetime:
    """When the time after a year, month or day begins."""
    return _span(text)[1]


def _span(text: str) -> tuple[datetime, datetime]:
    found = _FORM.fullmatch(text.strip())
    try:
        if found is None:
            raise ValueError("it has another form")
        year, month, day = (None if part is None else int(part) for part in found.groups())
        start = datetime(year or 0, month or 1, day or 1)
        if day is not None:
            return start, start + timedelta(days=1)
        if month is not None:
            return start, datetime(start.year + month // 12, month % 12 + 1, 1)
        return start, datetime(start.year + 1, 1, 1)
    except (ValueError, OverflowError) as error:
        raise InputError(f"{text!r} is not a date ({error}): write 2024, 2024-05 or 2024-05-31") from None
