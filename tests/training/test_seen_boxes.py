"""Boxes in views that show a part of a photo."""

import numpy as np
import torch

from smlstm.data.entities import Phrase, PhrasedPhoto
from smlstm.matching.batch import Tokens
from smlstm.training.phrases import PhraseBatch
from smlstm.training.seen_boxes import FINER, as_seen
from smlstm.vision.views import Part

SIDE = 8
PHOTO = PhrasedPhoto((400, 200), ())


def seen(box, part):
    fine = PHOTO.regions_of(Phrase("a dog", ("animals",), 0, 2, (box,)), SIDE * FINER)
    one = torch.ones(1, dtype=torch.long)
    batch = PhraseBatch(Tokens(one[:, None], one), one * 0, one[:, None].bool(), torch.from_numpy(fine)[None])
    return as_seen(batch, [part], SIDE).inside.numpy().reshape(SIDE, SIDE)


def test_the_whole_photo_shows_what_a_grid_of_its_regions_shows():
    for box in ((0, 0, 100, 70), (130, 11, 171, 199), (350, 150, 400, 200)):
        expected = PHOTO.regions_of(Phrase("a dog", ("animals",), 0, 2, (box,)), SIDE).reshape(SIDE, SIDE)
        assert (seen(box, Part()) == expected).all()
        assert (seen(box, Part(mirrored=True)) == expected[:, ::-1]).all()


def test_a_part_shows_its_share_of_a_box():
    found = seen((0, 0, 200, 200), Part(left=0.25, right=1.0, top=0.5, bottom=1.0))  # the left third of it
    middles = 0.25 + (np.arange(SIDE) + 0.5) / SIDE * 0.75
    assert (found == (middles < 0.5)[None]).all()
    assert not seen((0, 0, 60, 200), Part(left=0.25, right=1.0)).any(), "outside of what is seen"
    assert (seen((0, 0, 200, 200), Part(left=0.25, right=1.0, mirrored=True)) == (middles < 0.5)[None, ::-1]).all()
