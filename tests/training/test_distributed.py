"""Two processes that share a batch do what one process does."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from smlstm.training import read_config, train
from smlstm.training.checkpoint import read_checkpoint
from smlstm.training.step import BatchLoss
from tests.training.grids import example_batch, example_matcher, example_objective

ROOT = Path(__file__).parents[2]


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@pytest.fixture(scope="module")
def two_processes(scenes, tmp_path_factory):
    """A folder with what two gloo processes found: gradients, and a whole run without dropout."""
    folder = tmp_path_factory.mktemp("two")
    sizes = "embedding_width = 8, sentence_width = 8, max_words = 16"
    (folder / "tiny.toml").write_text(
        f"""
name = "tiny"
[[data]]
dataset = "{scenes / "captions.csv"}"
features = "{scenes / "features"}"
[stage.mnlm]
epochs = 2
batch_size = 17
model = {{ {sizes} }}
[stage.smlstm]
start_from = "mnlm"
batch_size = 16
epochs = 1
model = {{ {sizes}, word_width = 8, attention_width = 6, similarity_width = 8, hidden_width = 6 }}
"""
    )
    start("gradients", folder)
    start("run", folder)
    return folder


def start(job: str, folder: Path) -> None:
    """Run a job in two processes; one that hangs is ended, so that no test leaves it behind."""
    shared = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": "2"}
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.training.two_processes", job, str(folder)],
            cwd=ROOT,
            env={**shared, "RANK": str(rank)},
            stderr=subprocess.PIPE,
        )
        for rank in range(2)
    ]
    try:
        for process in processes:
            _, said = process.communicate(timeout=300)
            assert process.returncode == 0, said.decode()
    finally:
        for process in processes:
            process.kill()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["mnlm", "sm-lstm", "sm-lstm+"])
def test_gradients_of_a_shared_batch_are_those_of_one_process(two_processes, kind):
    matcher = example_matcher(kind)
    alone = BatchLoss(matcher, example_objective())(example_batch())
    alone.sum().backward()
    for rank in range(2):
        shared = torch.load(two_processes / f"{kind}-{rank}.pt", weights_only=True)
        torch.testing.assert_close(shared["loss"], alone.detach())
        for name, parameter in matcher.named_parameters():
            torch.testing.assert_close(shared["grads"][name], parameter.grad, msg=name)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="threads are counted in /proc")
def test_no_thread_of_a_group_is_left_to_bring_the_program_down_at_its_end(two_processes):
    for rank in range(2):
        found = json.loads((two_processes / f"threads-{rank}.json").read_text())
        assert "pt_gloo_runloop" in found["in use"]
        assert "pt_gloo_runloop" not in found["left"]


@pytest.mark.slow
def test_a_run_of_two_processes_ends_where_one_process_ends(two_processes, tmp_path):
    train(read_config(two_processes / "tiny.toml"), tmp_path)
    for stage in ("mnlm", "smlstm"):
        one, two = (read_checkpoint(folder / stage / "checkpoint.pt") for folder in (tmp_path, two_processes / "run"))
        assert one.progress.step == two.progress.step
        assert two.progress.finished == "all epochs are done"
        for name, tensor in one.model.items():
            torch.testing.assert_close(two.model[name], tensor, atol=2e-3, rtol=1e-2, msg=f"{stage}: {name}")
