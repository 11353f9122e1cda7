import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from smlstm.baselines import DVSA, OEM, SCAN
from smlstm.baselines.slices import _SLICE, score_slices
from smlstm.model.mnlm import Embedded

counts = st.integers(1, 40)


@given(images=counts, sentences=counts, pair_size=st.integers(1, 3 * _SLICE))
def test_slices_stay_small_and_come_back_in_place(images, sentences, pair_size):
    def score(rows: Embedded, columns: Embedded) -> torch.Tensor:
        pairs = len(rows) * len(columns)
        assert pairs == 1 or pairs * pair_size <= _SLICE
        return rows.vectors + columns.vectors.T

    rows = Embedded(torch.arange(images)[:, None])
    columns = Embedded(100 * torch.arange(sentences)[:, None])
    scores = score_slices(score, rows, columns, pair_size, recompute=False)
    assert torch.equal(scores, rows.vectors + columns.vectors.T)


@pytest.mark.parametrize("baseline", [OEM, DVSA, SCAN])
def test_training_keeps_nothing_of_all_pairs_size(baselines, baseline):
    matcher = baselines.make(baseline, sentence_width=24)
    images = matcher.encode_images(baselines.images(40, regions=20))
    sentences = matcher.encode_sentences(baselines.sentences([9] * 30))
    kept: list[int] = []

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        kept.append(tensor.numel())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        matcher.score(images, sentences)
    pairs_size = 40 * 30 * (24 if baseline is OEM else 20 * 9)
    assert max(kept, default=0) < pairs_size / 10
