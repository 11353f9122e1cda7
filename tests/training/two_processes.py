"""What one of two processes does in `test_distributed.py`; started with torchrun's environment variables."""

import json
import sys
from pathlib import Path

import torch

from smlstm.training import read_config, train
from smlstm.training.distributed import Processes, SharedBatchLoss
from tests.training.grids import example_batch, example_matcher, example_objective, part_of


def gradients(folder: Path) -> None:
    """Our gradients of the shared loss, once for each kind of matcher."""
    with Processes() as processes:
        for kind in ("mnlm", "sm-lstm", "sm-lstm+"):
            matcher = example_matcher(kind)
            loss = processes.share(SharedBatchLoss(matcher, example_objective()))
            found = loss(part_of(example_batch(), processes))
            found.sum().backward()
            grads = {name: parameter.grad for name, parameter in matcher.named_parameters()}
            torch.save({"loss": found.detach(), "grads": grads}, folder / f"{kind}-{processes.rank}.pt")
        in_use = threads()
    (folder / f"threads-{processes.rank}.json").write_text(json.dumps({"in use": in_use, "left": threads()}))


def threads() -> list[str]:
    """Names of this process's threads, those of torch's libraries too."""
    return sorted(task.read_text().strip() for task in Path("/proc/self/task").glob("*/comm"))


def whole_run(folder: Path) -> None:
    """A run from its configuration to its folder."""
    train(read_config(folder / "tiny.toml"), folder / "run")


if __name__ == "__main__":
    torch.set_num_threads(1)
    {"gradients": gradients, "run": whole_run}[sys.argv[1]](Path(sys.argv[2]))
