"""Which captions meet, epoch by epoch."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from smlstm.errors import InputError
from smlstm.training.batches import Batches
from smlstm.training.mining import Miner

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


def miner(captions: int, group: int) -> tuple[Miner, np.ndarray, torch.Tensor]:
    """An MNLM's view of captions in clusters of confusable ones."""
    chance = torch.Generator().manual_seed(0)
    clusters = torch.arange(captions) % (captions // group)
    centres = torch.nn.functional.normalize(torch.randn(captions // group, 8, generator=chance), dim=1)
    vectors = centres[clusters] + 0.01 * torch.randn(captions, 8, generator=chance)
    image_of = np.arange(captions)
    return (
        Miner(torch.cat([vectors, vectors], 1), torch.cat([vectors, vectors], 1), image_of, group),
        image_of,
        clusters,
    )


def test_mined_groups_are_what_the_mnlm_confuses():
    found, image_of, clusters = miner(64, 4)
    batches = Batches(image_of, 16, 0, grouping=found, pool=64)
    epoch = np.concatenate(list(batches.epoch(0)))
    assert len(np.unique(epoch)) == 64
    for group in epoch.reshape(-1, 4):
        assert len(clusters[torch.from_numpy(group)].unique()) == 1


def test_mined_batches_too_depend_on_their_number_alone():
    found, image_of, _ = miner(64, 4)
    once, again = (Batches(image_of, 8, 3, grouping=found, pool=32) for _ in range(2))
    list(once.epoch(1))
    np.testing.assert_array_equal(once.batch(1, 6), again.batch(1, 6))


def test_captions_of_one_image_are_not_mined_as_each_others_negatives():
    found, _, _ = miner(64, 4)
    found._image_of = np.arange(64) // 2
    for group in found.order(np.arange(64), 0).reshape(-1, 4)[:8]:
        assert len(np.unique(found._image_of[group])) == 4
