import pytest
import torch

from smlstm.matching.batch import ImageFeatures, Tokens
from smlstm.text import UNKNOWN
from smlstm.training.augmentation import drop_regions, drop_words


def pooled(images: int = 3, regions: int = 20, width: int = 6) -> ImageFeatures:
    values = torch.rand(images, regions, width, generator=torch.Generator().manual_seed(0))
    return ImageFeatures(values, values.mean(1))


def test_kept_regions_are_some_of_the_image_and_its_mean_follows():
    features = pooled()
    torch.manual_seed(0)
    left = drop_regions(features, 0.5)
    assert left.regions.shape == (3, 10, 6)
    for before, after in zip(features.regions, left.regions, strict=True):
        found = (before[None] == after[:, None]).all(2)  # kept, all
        assert found.sum(1).tolist() == [1] * 10
        assert found.any(0).sum() == 10, "no region is taken twice"
    torch.testing.assert_close(left.context, left.regions.mean(1))
    again = drop_regions(features, 0.5)
    assert not torch.equal(again.regions, left.regions)


@pytest.mark.parametrize("width", [6, 9])
def test_a_context_that_is_no_mean_stays(width):
    context = torch.rand(3, width, generator=torch.Generator().manual_seed(1))
    left = drop_regions(ImageFeatures(pooled().regions, context), 0.4)
    assert torch.equal(left.context, context)


def test_half_precision_features_are_recognised():
    exact = pooled(width=32)
    half = ImageFeatures(exact.regions.half(), exact.context.half())
    left = drop_regions(half, 0.5)
    assert left.context.dtype == torch.float16
    torch.testing.assert_close(left.context.float(), left.regions.float().mean(1), atol=1e-3, rtol=1e-3)


def test_one_region_is_always_left():
    assert drop_regions(pooled(regions=2), 0.99).regions.shape[1] == 1


def test_words_become_unknown_and_padding_stays():
    lengths = torch.full((400,), 5)
    ids = torch.full((400, 8), 7)
    ids[:, 5:] = 0
    torch.manual_seed(0)
    dropped = drop_words(Tokens(ids, lengths), 0.25)
    assert (dropped.ids[:, 5:] == 0).all()
    assert torch.equal(dropped.lengths, lengths)
    share = (dropped.ids[:, :5] == UNKNOWN).double().mean().item()
    assert share == pytest.approx(0.25, abs=0.04)
    assert set(dropped.ids[:, :5].unique().tolist()) == {UNKNOWN, 7}
