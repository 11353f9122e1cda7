"""Which captions meet, epoch by epoch."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smlstm.errors import InputError
from smlstm.training.batches import Batches

IMAGE_OF = np.repeat(np.arange(60), 5)


@given(st.integers(2, 40), st.integers(0, 5), st.integers(0, 2**20))
def test_an_epoch_shows_every_caption_at_most_once_and_leaves_out_less_than_a_batch(size, epoch, seed):
    batches = Batches(IMAGE_OF, size, seed)
    shown = np.concatenate(list(batches.epoch(epoch)))
    assert len(np.unique(shown)) == len(shown) > len(IMAGE_OF) - size
    assert all(len(batch) == size for batch in batches.epoch(epoch))


def test_a_batch_depends_on_seed_epoch_and_number_alone():
    once, again = Batches(IMAGE_OF, 16, 7), Batches(IMAGE_OF, 16, 7)
    list(once.epoch(0))
    np.testing.assert_array_equal(once.batch(3, 5), again.batch(3, 5))
    np.testing.assert_array_equal(next(once.epoch(2, start=4)), again.batch(2, 4))
    assert not np.array_equal(once.batch(3, 5), again.batch(4, 5))
    assert not np.array_equal(once.batch(3, 5), Batches(IMAGE_OF, 16, 8).batch(3, 5))


def test_captions_of_one_image_lie_apart_or_together():
    apart = [len(np.unique(IMAGE_OF[batch])) for batch in Batches(IMAGE_OF, 20, 0).epoch(0)]
    assert np.mean(apart) > 19, "drawn blindly, 20 of 300 captions have 18.7 images"
    together = [len(np.unique(IMAGE_OF[batch])) for batch in Batches(IMAGE_OF, 20, 0, together=5).epoch(0)]
    assert together == [4] * 15


def test_uneven_numbers_of_captions_still_mix():
    uneven = np.concatenate([np.zeros(100, np.int64), np.arange(1, 101)])
    for batch in Batches(uneven, 20, 0).epoch(0):
        assert 4 < len(np.unique(uneven[batch])) <= 20


def test_one_image_is_not_enough():
    with pytest.raises(InputError, match="two images"):
        Batches(np.zeros(50, np.int64), 5, 0)


def test_an_epoch_may_be_a_part_that_is_drawn_anew():
    short, whole = Batches(IMAGE_OF, 16, 7, most=2), Batches(IMAGE_OF, 16, 7)
    assert len(short) == 2 and len(Batches(IMAGE_OF, 16, 7, most=1000)) == len(whole)
    first, second = (np.concatenate(list(short.epoch(epoch))) for epoch in (0, 1))
    assert len(np.unique(first)) == 32 and set(first) != set(second)
    assert np.array_equal(short.batch(1, 1), whole.batch(1, 1))
