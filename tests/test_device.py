"""Devices by name, as far as they can be told apart on a machine without a GPU."""

import copy

import pytest
import torch

from smlstm.device import settle_device
from smlstm.scoring.job import Engine
from tests.scoring import made


@pytest.mark.parametrize(
    ("wanted", "here", "meant"),
    [
        (None, "cuda:0", "cuda:0"),
        ("cuda:1", "cuda:0", "cuda:1"),
        ("cuda:0", "cuda:0", "cuda:0"),
        ("cuda", "cuda:1", "cuda:1"),  # not the first one: the matcher is on a GPU already
        ("cuda", "cpu", "cuda"),
        ("cpu", "cuda:0", "cpu"),
        ("cpu:0", "cpu", "cpu"),
        ("cpu", "cpu", "cpu"),
    ],
)
def test_a_device_is_the_one_that_was_named(wanted, here, meant):
    assert settle_device(wanted, torch.device(here)) == torch.device(meant)


def test_a_matcher_on_one_gpu_is_copied_to_another_and_not_to_its_own():
    """Two devices of one kind: `meta` stands in for `cuda`, and forgets the number of what it holds."""
    matcher = copy.deepcopy(made.matcher("mnlm")).to("meta")
    moved = Engine(matcher, "float32", "meta:1")
    assert moved.device == torch.device("meta:1") and moved.matcher is not matcher and moved.given is matcher
    for same in (None, "meta"):
        assert Engine(matcher, "float32", same).matcher is matcher
