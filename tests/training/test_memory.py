"""Freed memory is kept: a second round of large tensors needs next to no new pages."""

import subprocess
import sys

import pytest

ROUND = """
import resource, torch
torch.set_num_threads(1)
if {keep}:
    from smlstm.training.memory import keep_freed_memory
    assert keep_freed_memory()
def steps():
    for _ in range(5):
        kept = [torch.ones(12_000_000) for _ in range(3)]
        del kept
steps()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
steps()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(keep: bool) -> int:
    done = subprocess.run([sys.executable, "-c", ROUND.format(keep=keep)], capture_output=True, text=True, check=True)
    return int(done.stdout)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="asks glibc")
def test_freed_memory_is_kept():
    assert faults(keep=True) < faults(keep=False) / 10
