"""Hard negatives for the price of a matrix product: captions that a trained MNLM takes for each other.

Two captions c, d of different images x, y are confusable when MNLM finds d fitting to x and c fitting to y:

    confusion(c, d) = x . d + y . c

Groups of mutually confusable captions go into a batch together, so that the costly model is trained on few pairs
that teach something instead of many that do not.
"""

import numpy as np
import torch

from smlstm.training.embedding import EmbeddedExamples
from smlstm.training.examples import Integers


class Miner:
    """Groups of captions that an MNLM confuses; every caption of a pool comes exactly once."""

    def __init__(self, embedded: EmbeddedExamples, image_of: Integers, group: int) -> None:
        images, captions = embedded.images[torch.from_numpy(image_of)], embedded.captions  # N, E
        self._vectors, self._crossed = torch.cat([images, captions], 1), torch.cat([captions, images], 1)  # N, 2E
        self._image_of, self._group = image_of, group

    def order(self, captions: Integers, seed: int) -> Integers:
        """Greedily: the next free caption takes its most confusable free companions, of images not yet there."""
        confusion = (self._vectors[captions] @ self._crossed[captions].T).numpy()  # P, P
        images = self._image_of[captions]
        free = np.ones(len(captions), np.bool_)
        groups: list[Integers] = []
        for anchor in range(len(captions)):
            if not free[anchor]:
                continue
            ranked = np.flatnonzero(free)
            ranked = ranked[np.argsort(-confusion[anchor, ranked], kind="stable")]
            ranked = ranked[ranked != anchor]
            distinct = _first_of_each(images[ranked], images[anchor])
            later = np.setdiff1d(np.arange(len(ranked)), distinct)
            group = np.concatenate([[anchor], ranked[np.concatenate([distinct, later])][: self._group - 1]])
            free[group] = False
            groups.append(captions[group])
        # The last groups are left-overs: spread them over the pool. The one that is not full stays last.
        full = [group for group in groups if len(group) == self._group]
        rest = [group for group in groups if len(group) < self._group]
        shuffled = np.random.default_rng(seed).permutation(len(full))
        ordered = [*(full[int(place)] for place in shuffled), *rest]
        return np.concatenate(ordered).astype(np.int64)


def _first_of_each(images: Integers, anchor: int) -> Integers:
    """Places of the first caption of each image but the anchor's, in order."""
    first: Integers = np.sort(np.unique(images, return_index=True)[1])
    return first[np.flatnonzero(images[first] != anchor)]
