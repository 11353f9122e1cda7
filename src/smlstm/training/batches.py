"""Which captions meet in a batch: batch k of epoch e is a function of (seed, e, k) and of nothing else.

An interrupted epoch is therefore taken up at any batch without having kept anything. Modes:

`batch`, `uniform`  a fresh order each epoch in which the captions of one image lie far apart: each image's n
                    captions are spread evenly over the epoch, at random places. With `together` > 1, so many
                    captions of an image stay side by side: fewer images a batch, and fewer pairs
`mined`             the same order cut into pools of some thousand captions; within a pool, groups of captions that
                    an MNLM takes for each other (mining.py)

What is left at the end of an epoch and fills no batch waits for another epoch, which leaves out others.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Protocol

import numpy as np

from smlstm.errors import InputError
from smlstm.files import fingerprint
from smlstm.training.examples import Integers


def seed_of(*parts: object) -> int:
    """A seed for one purpose: well mixed, so that neighbouring purposes share nothing."""
    digest = bytes.fromhex(fingerprint(["/".join(map(str, parts))]))
    return int.from_bytes(digest[:8], "little") >> 1


class Grouping(Protocol):
    """Puts confusable captions of a pool beside each other."""

    def order(self, captions: Integers, seed: int) -> Integers:
        """The pool's captions in another order: groups one behind the other."""


class Batches:
    """The batches of every epoch."""

    def __init__(
        self,
        image_of: Integers,
        size: int,
        seed: int,
        *,
        together: int = 1,
        grouping: Grouping | None = None,
        pool: int = 0,
    ) -> None:
        self._image_of, self._seed, self._together = image_of, seed, together
        self.size = min(size, len(image_of))
        self._grouping = grouping
        # A pool is a whole number of batches, so that no batch needs two pools.
        self._pool_batches = max(1, pool // self.size)
        self.order = lru_cache(maxsize=2)(self._order)
        self._mined = lru_cache(maxsize=2)(self._mine)
        if len(np.unique(image_of)) < 2:
            raise InputError("a batch needs captions of two images at least")

    def __len__(self) -> int:
        return len(self._image_of) // self.size

    def batch(self, epoch: int, k: int) -> Integers:
        """Captions of batch k."""
        if self._grouping is None:
            return self.order(epoch)[k * self.size : (k + 1) * self.size]
        pool, place = divmod(k, self._pool_batches)
        return self._mined(epoch, pool)[place * self.size : (place + 1) * self.size]

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

    def _mine(self, epoch: int, pool: int) -> Integers:
        assert self._grouping is not None
        span = self._pool_batches * self.size
        captions = self.order(epoch)[pool * span : (pool + 1) * span]
        return self._grouping.order(captions, seed_of(self._seed, "mined", epoch, pool))


def split_groups(batch: Integers, size: int | None) -> Sequence[Integers]:
    """Cut a batch into the groups within which pairs are scored."""
    return [batch] if size is None else [batch[start : start + size] for start in range(0, len(batch), size)]
