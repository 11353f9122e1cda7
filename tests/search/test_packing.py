import numpy as np
import pytest
import torch

from smlstm.matching.batch import ImageFeatures
from smlstm.model import SMLSTM, SMLSTMConfig
from smlstm.model.ensemble import Ensemble
from smlstm.search.packing import Packing, _tensors
from smlstm.text import Vocabulary

WORDS = Vocabulary(("a", "red", "dog"))
SIZES = dict(region_width=6, context_width=7, embedding_width=4, word_width=4, sentence_width=5)
SIZES |= dict(attention_width=3, similarity_width=5, hidden_width=4)


def build(**changes) -> SMLSTM:
    torch.manual_seed(1)
    return SMLSTM(SMLSTMConfig(**SIZES, **changes), WORDS).eval()


def features(count: int = 5, regions: int = 9) -> ImageFeatures:
    generator = torch.Generator().manual_seed(0)
    return ImageFeatures(
        torch.randn(count, regions, 6, generator=generator), torch.randn(count, 7, generator=generator)
    )


@pytest.mark.parametrize("variant", ["full", "att", "ctx", "mean"])
@torch.inference_mode()
def test_what_comes_back_is_within_a_step_of_what_went_in(variant):
    model = build(variant=variant)
    packing, images = Packing(model, 9), model.encode_images(features())
    packed = packing.pack(images)
    assert packed.dtype == np.uint8 and packed.shape == (5, packing.width)
    for before, after in zip(_tensors(images), _tensors(packing.unpack(packed)), strict=True):
        spread = before.amax(1) - before.amin(1) if before.dim() == 3 else torch.zeros(1)
        step = spread.max() / 255 / 2 + 2e-3 * before.abs().max()
        assert before.shape == after.shape and float((before - after).abs().max()) <= step


@torch.inference_mode()
def test_scores_stay(variant="full"):
    model = build()
    packing, images = Packing(model, 9), model.encode_images(features(40))
    sentences = model.encode_sentences(["a red dog"])
    before = model.score(images, sentences)
    after = model.score(packing.unpack(packing.pack(images)), sentences)
    assert float((before - after).abs().max()) < 0.02 * float(before.std())


@torch.inference_mode()
def test_equal_regions_and_ensembles_have_a_form_too():
    model = Ensemble([build(), build(modulation="joint")]).eval()
    one = features(2)
    same = ImageFeatures(one.regions[:, :1].expand(-1, 9, -1).contiguous(), one.context)
    packing = Packing(model, 9)
    images = model.encode_images(same)
    for before, after in zip(_tensors(images), _tensors(packing.unpack(packing.pack(images))), strict=True):
        assert torch.allclose(before, after, rtol=2e-3, atol=1e-3)
