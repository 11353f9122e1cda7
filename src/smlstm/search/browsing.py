"""Looking through a library without asking for anything: photos by row, and the newest first."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from smlstm.search.matches import Match
from smlstm.search.snapshot import Filter, Mask, Snapshot


def photos_in(snapshot: Snapshot, rows: Sequence[int], files: Mask) -> list[Match]:
    """What is known of some photos, under the names that they have among some files."""
    if not rows:
        return []
    named, facts = snapshot.files_of(rows, files), snapshot.facts(rows)
    found = []
    for row, about in zip(rows, facts, strict=True):
        path, *copies = (Path(snapshot.path(file)) for file in named[row])
        found.append(Match(path, None, 0.0, copies=tuple(copies), content=int(snapshot.contents[row]), **about))
    return found


def newest(snapshot: Snapshot, chosen: Filter, start: int, count: int) -> tuple[list[Match], int]:
    """Photos from the newest on, some of them, and how many there are."""
    files = snapshot.files(chosen)
    places = np.flatnonzero(files)
    rows = snapshot.photo_of[places]
    order = np.lexsort((rows, -snapshot.dates[places].astype(np.int64)))
    _, first = np.unique(rows[order], return_index=True)  # a photo of several files stands where its newest does
    by_date = rows[order][np.sort(first)]
    return photos_in(snapshot, by_date[start : start + count].tolist(), files), len(by_date)
