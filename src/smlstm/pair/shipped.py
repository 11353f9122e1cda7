"""The shipped model: the folder `pretrained` of the package, laid out as `pair.py` says."""

import os
from pathlib import Path

from smlstm.errors import InputError
from smlstm.pair.pair import Pair, is_pair, load_pair

FOLDER = Path(__file__).parents[1] / "pretrained"


def model_folder(folder: str | Path | None = None) -> Path:
    """Where a pair is: the folder given, else the one that `SMLSTM_MODEL` names, else the shipped one."""
    chosen = folder or os.environ.get("SMLSTM_MODEL")
    if chosen:
        return Path(chosen).expanduser()
    if not is_pair(FOLDER):
        raise InputError(
            "this installation lacks the model that comes with smlstm: install it anew, or give one with --model FOLDER"
        )
    return FOLDER


def load_model(folder: str | Path | None = None) -> Pair:
    """Load the pair that `model_folder` finds."""
    return load_pair(model_folder(folder))
