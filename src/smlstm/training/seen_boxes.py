"""Boxes of phrases in the part of a photo that a view shows.

Boxes are kept on a grid of the whole photo, `FINER` times as fine as the regions' where views show parts of it: odd, so
that the middle of a region of the whole photo is the middle of a cell. A region of a view is in a box where its middle
is, as everywhere; what lies outside of the part is not seen.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from smlstm.training.phrases import PhraseBatch
from smlstm.vision.views import Part

FINER = 3


def as_seen(phrases: PhraseBatch, parts: Sequence[Part], side: int) -> PhraseBatch:
    """Boxes on a grid of so many regions a side, each as its image's part shows them."""
    cells = round(phrases.inside.shape[1] ** 0.5)
    inside = phrases.inside.numpy().reshape(-1, cells, cells)
    found = np.empty((len(inside), side, side), np.bool_)
    for place, image in enumerate(phrases.image_of.tolist()):
        columns, rows = ((middles * cells).astype(np.int64) for middles in parts[image].places(side))
        found[place] = inside[place][np.ix_(rows, columns)]
    return replace(phrases, inside=torch.from_numpy(found.reshape(len(inside), -1)))
