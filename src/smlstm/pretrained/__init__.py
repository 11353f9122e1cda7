"""The shipped model: two matchers that find photos together, in this very folder, laid out as `pair.py` says."""

import os
from pathlib import Path

from smlstm.errors import InputError
from smlstm.pretrained.pair import Calibration, Pair, is_pair, load_pair

__all__ = ["Calibration", "Pair", "load_model", "load_pair", "load_shipped"]

FOLDER = Path(__file__).parent


def load_shipped() -> Pair:
    """Load the pair that comes with smlstm."""
    if not is_pair(FOLDER):
        raise InputError("no model comes with this version of smlstm yet: give one with --model FOLDER")
    return load_pair(FOLDER)


def load_model(folder: str | Path | None = None) -> Pair:
    """Load the pair in a folder: the one given, else the one that `SMLSTM_MODEL` names, else the shipped one."""
    chosen = folder or os.environ.get("SMLSTM_MODEL")
    return load_pair(Path(chosen).expanduser()) if chosen else load_shipped()
