"""Dates as people type them: a year, a month or a day, whole; and times of files as their clocks showed them."""

import re
import time
from datetime import datetime, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smlstm.errors import InputError

_FORM = re.compile(r"(\d{4})(?:-(\d{1,2})(?:-(\d{1,2}))?)?")

_DAY = 86_400


def first_moment(text: str) -> datetime:
    """When a year, month or day begins: 2024, 2024-05 or 2024-05-31."""
    return _span(text)[0]


def moment_after(text: str) -> datetime:
    """When the time after a year, month or day begins."""
    return _span(text)[1]


def local_times(nanoseconds: NDArray[np.int64]) -> Any:
    """Times since 1970 in UTC as the clocks here showed them then, summer time and all; datetime64 in seconds."""
    seconds = nanoseconds // 1_000_000_000
    # Clocks seldom change: a day that begins and ends with one offset has it throughout.
    days, day_of = np.unique(seconds // _DAY, return_inverse=True)
    first, last = (np.array([_offset(int(day) * _DAY + at) for day in days], np.int64) for at in (0, _DAY - 1))
    offsets = first[day_of]
    for place in np.flatnonzero((first != last)[day_of]):
        offsets[place] = _offset(int(seconds[place]))
    return (seconds + offsets).astype("datetime64[s]")


def _offset(seconds: int) -> int:
    """How far the clocks here were ahead of UTC at a moment."""
    try:
        return time.localtime(seconds).tm_gmtoff
    except (OverflowError, OSError):  # some systems know no time before 1970
        return -time.timezone


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
