"""Image-sentence matching that shows what it looked at (sm-LSTM, CVPR 2017).

`Library` finds your photos by sentences, `Matcher` scores images and sentences, `ImageFeatures` is what a matcher sees.

>>> from smlstm import Library
>>> library = Library("my-library")  # doctest: +SKIP
>>> library.index("~/Photos")  # doctest: +SKIP
>>> library.search("a dog running on the beach", k=5)  # doctest: +SKIP
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from smlstm.matching.batch import ImageFeatures
    from smlstm.matching.matcher import Matcher
    from smlstm.search import Library

__version__ = "0.1.0"
__all__ = ["ImageFeatures", "Library", "Matcher"]

_ROOMS = {"ImageFeatures": "smlstm.matching.batch", "Library": "smlstm.search", "Matcher": "smlstm.matching.matcher"}


def __getattr__(name: str) -> Any:
    """Import torch only when something that needs it is asked for, so that `smlstm --help` is quick."""
    if name in _ROOMS:
        from importlib import import_module  # noqa: PLC0415 - seldom needed

        globals()[name] = found = getattr(import_module(_ROOMS[name]), name)
        return found
    raise AttributeError(f"module 'smlstm' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
