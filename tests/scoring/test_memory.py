import resource
import subprocess
import sys

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from smlstm.scoring import score_all, score_pairs
from tests.scoring import made


class Largest(TorchDispatchMode):
    """Remembers the size of the largest tensor that any operation made."""

    elements = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, (tuple, list)) else (result,):
            if isinstance(tensor, torch.Tensor):
                self.elements = max(self.elements, tensor.untyped_storage().nbytes() // tensor.element_size())
        return result


@pytest.mark.parametrize("modulation", ["joint", "gated"])
def test_nothing_of_the_size_of_pairs_by_regions_by_units_exists(modulation, monkeypatch):
    regions, units, slice_size = 50, 40, 1 << 14
    monkeypatch.setattr("smlstm.model.joint._SLICE", slice_size)
    matcher = made.smlstm(f"full-{modulation}-product", attention_width=units)
    with Largest() as largest:
        score_all(matcher, made.features(8, regions), made.sentences(32), tile=(8, 32))
    allowed = max(8 * 32 * (4 * 6 + 2 * units), 8 * regions * units, slice_size)
    assert largest.elements <= allowed < 8 * 32 * regions * units


def test_images_are_read_in_bounded_blocks():
    store, texts = made.MadeStore(made.features(200)), made.sentences(9)
    score_all(made.matcher("full-gated-product"), store, texts, tile=(4, 4))
    assert store.most <= 16
    assert sorted(store.asked) == list(range(200)), "each image is read once"
    store.most = 0
    score_all(made.matcher("full-gated-product"), store, texts, tile=(4, 4), memory=100_000)
    assert store.most <= 60


def test_chosen_pairs_read_only_their_images():
    store = made.MadeStore(made.features(200))
    score_pairs(made.matcher("full-gated-product"), store, made.sentences(9), [(150, 1), (3, 8), (150, 2)])
    assert sorted(set(store.asked)) == [3, 150]


SCRIPT = """
import resource, sys
import numpy as np
from smlstm.scoring import score_all
from tests.scoring import made
matcher, texts = made.smlstm(attention_width=64, similarity_width=64), made.sentences(40)

class Many(made.MadeStore):
    def __len__(self): return self.count
    def read_at(self, rows): return super().read_at(np.asarray(rows) % 2)

many = Many(made.features(2, regions=200))
for many.count in (200, int(sys.argv[1])):
    score_all(matcher, many, texts, memory=32 << 20, out=f"{sys.argv[2]}/{many.count}.npy")
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""


@pytest.mark.skipif(not hasattr(resource, "RUSAGE_SELF"), reason="needs resource usage")
def test_memory_does_not_grow_with_the_number_of_images(tmp_path):
    """1200 images would be 120 MB once encoded."""
    command = [sys.executable, "-c", SCRIPT, "1200", str(tmp_path)]
    few, many = map(int, subprocess.run(command, check=True, capture_output=True, text=True).stdout.split())
    assert many - few < 40
