"""What stored features are: which network made them, and how everything that trains or scores reads them."""

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from smlstm.errors import InputError

Half = npt.NDArray[np.float16]
Rows = npt.NDArray[np.int64]


@dataclass(frozen=True)
class FeatureSpec:
    """Which backbone, weights and preprocessing made features, and their shapes (I x F regions, D context).

    Two sets of features may be mixed only if every field is equal.
    """

    backbone: str
    weights_sha256: str
    preprocessing: str
    regions: int
    region_width: int
    context_width: int

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if not isinstance(value, field.type if isinstance(field.type, type) else object):
                raise InputError(f'feature spec: "{field.name}" is {value!r}, not a {field.type}')
            if isinstance(value, int) and value < 1:
                raise InputError(f'feature spec: "{field.name}" is {value}; it must be at least 1')

    def to_dict(self) -> dict[str, Any]:
        """Give the fields as JSON would write them."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, content: Any) -> "FeatureSpec":
        """Read what `to_dict` gave; a missing or unknown field is refused by its name."""
        names = [field.name for field in dataclasses.fields(cls)]
        if not isinstance(content, dict) or sorted(content) != sorted(names):
            found = sorted(content) if isinstance(content, dict) else type(content).__name__
            raise InputError(f"feature spec: expected the fields {names}, found {found}")
        return cls(**content)

    def difference(self, other: "FeatureSpec") -> tuple[str, Any, Any] | None:
        """Name the first field in which two specs differ, with both values; None if they are equal."""
        # Shapes before preprocessing: "49 regions, not 100" says more than two long descriptions of pixels.
        for name in ("backbone", "regions", "region_width", "context_width", "weights_sha256", "preprocessing"):
            mine, theirs = getattr(self, name), getattr(other, name)
            if mine != theirs:
                return name, mine, theirs
        return None


@runtime_checkable
class Features(Protocol):
    """Features of many images, read by key or by row without holding them all in memory."""

    @property
    def spec(self) -> FeatureSpec:
        """What made these features, and their shapes."""

    def __len__(self) -> int: ...

    def __contains__(self, key: object) -> bool: ...

    def keys(self) -> list[str]:
        """Every key, in the order of the rows."""

    def rows(self, keys: Sequence[str]) -> Rows:
        """Rows of some keys; a key that is not there is refused by its name."""

    def read(self, keys: Sequence[str]) -> tuple[Half, Half]:
        """Regions (B x I x F) and contexts (B x D) of some keys, in their order."""

    def read_at(self, rows: Sequence[int] | Rows) -> tuple[Half, Half]:
        """Regions (B x I x F) and contexts (B x D) of some rows, in their order."""


class KeyedFeatures(ABC):
    """Features whose keys are held in memory: the row of each in `_index`, in the order of the rows."""

    path: Path
    _spec: FeatureSpec
    _index: dict[str, int]

    @property
    def spec(self) -> FeatureSpec:
        """What made these features, as far as it is known, and their shapes."""
        return self._spec

    def __len__(self) -> int:
        return len(self._index)

    def __contains__(self, key: object) -> bool:
        return key in self._index

    def keys(self) -> list[str]:
        """Every key, in the order of the rows."""
        return list(self._index)

    def rows(self, keys: Sequence[str]) -> Rows:
        """Rows of some keys; a key that is not there is refused by its name."""
        return find_rows(self._index, keys, self.path)

    def read(self, keys: Sequence[str]) -> tuple[Half, Half]:
        """Regions (B x I x F) and contexts (B x D) of some keys, in their order."""
        return self.read_at(self.rows(keys))

    @abstractmethod
    def read_at(self, rows: Sequence[int] | Rows) -> tuple[Half, Half]:
        """Regions (B x I x F) and contexts (B x D) of some rows, in their order."""


def find_rows(index: dict[str, int], keys: Sequence[str], where: object) -> Rows:
    """Look up the rows of some keys; the message of a failure says how many were missing and which first."""
    try:
        return np.fromiter((index[key] for key in keys), dtype=np.int64, count=len(keys))
    except KeyError:
        missing = [key for key in keys if key not in index]
        raise InputError(
            f'{where} has no features of {len(missing)} of {len(keys)} images, the first is "{missing[0]}": '
            "extract them first"
        ) from None


def check_rows(rows: Sequence[int] | Rows, count: int, where: object) -> Rows:
    """Turn rows into an array and refuse those that are out of range."""
    array = np.asarray(rows, dtype=np.int64)
    if array.ndim != 1:
        raise InputError(f"rows must be a list of whole numbers, not an array of {array.ndim} dimensions")
    if array.size and (array.min() < 0 or array.max() >= count):
        wrong = int(array[(array < 0) | (array >= count)][0])
        raise InputError(f"{where} has rows 0 to {count - 1}, not {wrong}")
    return array
