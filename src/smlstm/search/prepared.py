"""Photos as a search compares them, kept in memory: what is found often is read and made ready once.

Each photo is made ready by itself. So its numbers are the same whatever others it was read with, and an answer does not
depend on who else asked, or on what was asked before.
"""

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from cachetools import LRUCache
from torch import Tensor

from smlstm.matching.batch import Batch, join
from smlstm.scoring.sentences import batch_bytes

MOST_BYTES = 256 << 20


@dataclass(frozen=True)
class PreparedPhoto(Batch):
    """Photos as both matchers of a pair compare them."""

    vector: Tensor  # M, E: of the shortlist
    image: Batch  # M: of the reranker


class PreparedPhotos:
    """The photos that were used last, by their content; several threads may ask."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._kept: LRUCache[int, PreparedPhoto] = LRUCache(most_bytes, getsizeof=_bytes)
        self._guard = threading.Lock()

    def get(self, contents: Sequence[int], read: Callable[[Sequence[int]], Iterable[PreparedPhoto]]) -> PreparedPhoto:
        """Photos in the order of their contents; `read` gives those at some places among them."""
        with self._guard:
            found = {content: self._kept[content] for content in contents if content in self._kept}
        missing = [place for place, content in enumerate(contents) if content not in found]
        new = {contents[place]: photo for place, photo in zip(missing, read(missing), strict=True)} if missing else {}
        with self._guard:
            for content, photo in new.items():
                if _bytes(photo) <= self._kept.maxsize:
                    self._kept[content] = photo
        found |= new
        return join([found[content] for content in contents])


def _bytes(batch: Batch) -> int:
    return max(1, batch_bytes(batch))
