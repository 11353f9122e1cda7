import pytest
import torch

from smlstm.errors import InputError
from smlstm.matching.batch import ImageFeatures, Tokens, join


def test_sentences_of_different_length_are_padded():
    short = Tokens(torch.tensor([[3, 4]]), torch.tensor([2]))
    long = Tokens(torch.tensor([[5, 6, 7]]), torch.tensor([3]))
    joined = join([short, long])
    assert joined.ids.tolist() == [[3, 4, 0], [5, 6, 7]]
    assert joined.mask.tolist() == [[True, True, False], [True, True, True]]


def test_images_of_different_grids_cannot_be_joined():
    with pytest.raises(InputError, match="different numbers of regions"):
        join(
            [
                ImageFeatures(torch.zeros(1, 4, 2), torch.zeros(1, 2)),
                ImageFeatures(torch.zeros(1, 9, 2), torch.zeros(1, 2)),
            ]
        )


def test_features_must_belong_together():
    with pytest.raises(InputError, match=r"\(2, 4, 3\) and \(1, 3\)"):
        ImageFeatures(torch.zeros(2, 4, 3), torch.zeros(1, 3))


def test_moving_moves_every_part():
    moved = ImageFeatures(torch.zeros(1, 4, 2), torch.zeros(1, 2)).to("meta")
    assert moved.regions.device.type == moved.context.device.type == "meta"


def test_selecting_keeps_all_parts_in_step():
    features = ImageFeatures(torch.arange(12.0).reshape(3, 2, 2), torch.arange(3.0)[:, None])
    chosen = features.select(torch.tensor([2, 0]))
    assert chosen.context[:, 0].tolist() == [2, 0]
    assert chosen.regions[0, 0, 0] == 8
    assert len(chosen) == 2
