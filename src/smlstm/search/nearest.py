"""The photos whose embeddings lie nearest to a direction: exact in a small library, by an index in a large one.

The index is Lance's IVF: photos in about sqrt(P) partitions around their means, of which the nearest are
looked through. Photos that came after it was built are always looked through.
"""

import math

import numpy as np
from numpy.typing import NDArray

from smlstm.search.lance_table import Table, Version
from smlstm.search.snapshot import Mask, Rows, Snapshot

EXACT_BELOW = 50_000
"""Photos from which on the index is used; comparing twice as many takes 35 ms longer than the index."""
PARTITIONS_LOOKED_THROUGH = 0.3
"""A sentence lies far from all photos, so the nearest are spread: a tenth of them held 94 of 100, this 99.95."""
_FEWEST_PARTITIONS = 20
_GROWTH = 0.1
"""Part of the photos that may be outside of the index before it is built again."""
INDEX = "embedding_idx"


def nearest(
    snapshot: Snapshot, query: NDArray[np.float32], allowed: Mask, k: int, exact_below: int
) -> tuple[Rows, NDArray[np.float32]]:
    """Rows of the k nearest photos among those allowed, the nearest first, and their cosines."""
    if len(snapshot.contents) >= exact_below and _indexed(snapshot.version):
        found = _by_index(snapshot, query, allowed, k)
        # A narrow filter can leave too little of what the index gives.
        if len(found[0]) == min(k, int(allowed.sum())):
            return found
    return exact(snapshot.vectors, query, allowed, k)


def exact(
    vectors: NDArray[np.float32], query: NDArray[np.float32], allowed: Mask, k: int
) -> tuple[Rows, NDArray[np.float32]]:
    """Every allowed photo is compared."""
    rows = np.flatnonzero(allowed)
    cosines = vectors @ query if len(rows) == len(vectors) else vectors[rows] @ query
    if k < len(rows):
        best = np.argpartition(-cosines, k)[:k]
        rows, cosines = rows[best], cosines[best]
    order = np.lexsort((rows, -cosines))  # ties in the order of the table
    return rows[order], cosines[order]


def _by_index(
    snapshot: Snapshot, query: NDArray[np.float32], allowed: Mask, k: int
) -> tuple[Rows, NDArray[np.float32]]:
    partitions = partition_count(len(snapshot.contents))
    assert snapshot.version is not None
    found = snapshot.version.nearest(
        ["content"],
        column="embedding",
        q=query,
        k=min(2 * k, len(snapshot.contents)),
        nprobes=max(_FEWEST_PARTITIONS, round(PARTITIONS_LOOKED_THROUGH * partitions)),
    )
    rows = snapshot.rows_of(found["content"].to_numpy())
    cosines = (1 - found["_distance"].to_numpy()).astype(np.float32)
    keep = (rows >= 0) & allowed[rows]
    return rows[keep][:k], cosines[keep][:k]


def partition_count(photos: int) -> int:
    """How many partitions an index of some photos has."""
    return max(1, math.isqrt(photos))


def keep_index(photos: Table, exact_below: int) -> bool:
    """Build the index where the library is large enough, and take new photos in when they are many."""
    version, count = photos.pinned(), len(photos)
    if version is None or count < exact_below or count - _indexed(version) <= _GROWTH * count:
        return False
    photos.build_index("embedding", INDEX, partition_count(count))
    return True


def _indexed(version: Version | None) -> int:
    return 0 if version is None else version.indexed(INDEX)
