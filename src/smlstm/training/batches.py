"""Which captions meet in a batch: batch k of epoch e is a function of (seed, e, k) and of nothing else.

An interrupted epoch is therefore taken up at any batch without having kept anything.

An epoch is a fresh order in which the captions of one image lie far apart: each image's n captions are spread evenly
over it, at random places. With `together` > 1, so many captions of an image stay side by side: fewer images a batch,
and fewer pairs.

What is left at the end of an epoch and fills no batch waits for another epoch, which leaves out others. So does all
behind `most` batches.
"""

from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from smlstm.errors import InputError
from smlstm.files import fingerprint
from smlstm.training.examples import Integers


def seed_of(*parts: object) -> int:
    """A seed for one purpose: well mixed, so that neighbouring purposes share nothing."""
    digest = bytes.fromhex(fingerprint(["/".join(map(str, parts))]))
    return int.from_bytes(digest[:8], "little") >> 1


class Batches:
    """The batches of every epoch."""

    def __init__(self, image_of: Integers, size: int, seed: int, *, together: int = 1, most: int | None = None) -> None:
        self._image_of, self._seed, self._together = image_of, seed, together
        self.size = min(size, len(image_of))
        self._count = min(len(image_of) // self.size, most or len(image_of))
        self.order = lru_cache(maxsize=2)(self._order)
        if len(np.unique(image_of)) < 2:
            raise InputError("a batch needs captions of two images at least")

    def __len__(self) -> int:
        return self._count

    def batch(self, epoch: int, k: int) -> Integers:
        """Captions of batch k."""
        return self.order(epoch)[k * self.size : (k + 1) * self.size]

    def epoch(self, epoch: int, start: int = 0) -> Iterator[Integers]:
        """Batches of an epoch from the one numbered `start`."""
        for k in range(start, len(self)):
            yield self.batch(epoch, k)

    def _order(self, epoch: int) -> Integers:
        rng = np.random.default_rng(seed_of(self._seed, "order", epoch))
        shuffled = rng.permutation(len(self._image_of))
        by_image = shuffled[np.argsort(self._image_of[shuffled], kind="stable")]
        _, starts, counts = np.unique(self._image_of[by_image], return_index=True, return_counts=True)
        turn = np.arange(len(by_image)) - np.repeat(starts, counts)  # 0..n-1 among its image's captions
        unit, units = turn // self._together, -(-counts // self._together)
        draws = rng.random(len(by_image))[np.arange(len(by_image)) - turn % self._together]  # one for each unit
        return by_image[np.argsort((unit + draws) / np.repeat(units, counts), kind="stable")]
