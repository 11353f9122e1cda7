import os
import time
from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
import pytest

from smlstm.search import Filter
from smlstm.search.dates import first_moment, local_times, moment_after
from tests.search.made import jpeg


@pytest.fixture
def zone(monkeypatch):
    """Live elsewhere."""

    def move(name: str) -> None:
        monkeypatch.setenv("TZ", name)
        time.tzset()

    yield move
    monkeypatch.undo()
    time.tzset()


def test_the_time_of_a_file_is_what_clocks_showed_then_whatever_they_show_today(library, photos, zone):
    """One of the two is found only by summer time's offset, the other only by winter's."""
    zone("EST5EDT,M3.2.0,M11.1.0")  # New York's
    for name, moment in (("summer", datetime(2024, 7, 1, 4, 30)), ("winter", datetime(2024, 1, 1, 4, 30))):
        (photos / f"{name}.jpg").write_bytes(jpeg(colour="red" if name == "summer" else "blue"))
        seconds = moment.replace(tzinfo=timezone.utc).timestamp()
        os.utime(photos / f"{name}.jpg", (seconds, seconds))
    library.index(photos)

    def found(since: str, until: str) -> set[str]:
        chosen = Filter(since=first_moment(since), until=moment_after(until))
        return {match.path.name for match in library.search("a red circle", k=20, chosen=chosen)}

    assert found("2024-07", "2024-07") == {"summer.jpg"} and found("2023", "2023") == {"winter.jpg"}
    assert found("2024-01", "2024-06") == set()


@pytest.mark.parametrize("name", ["America/New_York", "Europe/Berlin", "Australia/Lord_Howe", "Asia/Kolkata", "UTC"])
def test_local_times_are_those_of_the_time_zone_database(name, zone):
    try:
        there = ZoneInfo(name)
    except ZoneInfoNotFoundError:
        pytest.skip("this system has no time zone database")
    zone(name)
    rng = np.random.default_rng(0)
    seconds = rng.integers(0, 2_000_000_000, 300)
    begins = datetime(2024, 1, 1, tzinfo=timezone.utc)
    hours = [int((begins + timedelta(hours=each)).timestamp()) - 1 for each in range(366 * 24)]  # all changes of a year
    seconds = np.concatenate([seconds, hours])
    expected = [datetime.fromtimestamp(int(each), there).replace(tzinfo=None) for each in seconds]
    assert (local_times(seconds * 10**9 + 999) == np.array(expected, "datetime64[s]")).all()
    assert len(local_times(np.zeros(0, np.int64))) == 0
