"""One stage of a run, ready to be trained."""

from dataclasses import dataclass, field
from typing import Any

from smlstm.matching.matcher import Matcher
from smlstm.training.config import StageConfig
from smlstm.training.distributed import Processes
from smlstm.training.examples import Examples
from smlstm.training.folder import StageFolder
from smlstm.vision.tuning import Tail


@dataclass(frozen=True)
class Stage:
    """What is trained, how, on what, and where it is kept."""

    name: str
    config: StageConfig
    matcher: Matcher
    seed: int
    folder: StageFolder
    identity: dict[str, Any]
    training: Examples
    dev: Examples
    processes: Processes = field(default_factory=Processes)
    tail: Tail | None = None
    """What of the backbone learns too, from lower features."""
