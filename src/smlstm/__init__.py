"""Image-sentence matching that shows what it looked at (sm-LSTM, CVPR 2017).

>>> from smlstm import Matcher
>>> matcher = Matcher.load("runs/mine/model")  # doctest: +SKIP
"""

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from smlstm.matching.batch import ImageFeatures as ImageFeatures
    from smlstm.matching.matcher import Matcher as Matcher
    from smlstm.search import Library as Library

_ROOMS = {"Matcher": "smlstm.matching.matcher", "ImageFeatures": "smlstm.matching.batch", "Library": "smlstm.search"}


def __getattr__(name: str) -> Any:
    """Import torch only when something that needs it is asked for, so that `smlstm --help` is quick."""
    if name in _ROOMS:
        from importlib import import_module  # noqa: PLC0415 - seldom needed

        return getattr(import_module(_ROOMS[name]), name)
    raise AttributeError(f"module 'smlstm' has no attribute {name!r}")
