"""Where scores go: a matrix in memory, or one on disk that a killed job can continue.

On disk the matrix grows as `NAME.npy.part`, and `NAME.npy.part.progress` lists the rows that are done: its first line
says which job this is, each further line names finished rows, written after their scores are on the disk. Only a
complete matrix gets the name `NAME.npy`.
"""

import json
import os
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from smlstm.data.lock import WriterLock
from smlstm.errors import InputError
from smlstm.files import write_whole

Scores = npt.NDArray[np.float32]


class Output(ABC):
    """A matrix that is filled by blocks of rows; a phase is a pass over all of them."""

    scores: Scores

    def missing(self, phase: str, start: int, most: int) -> tuple[int, int]:
        """The next rows from `start` on that are not done in a phase, at most so many; (stop, stop): none."""
        done = self.done(phase)
        while start < len(done) and done[start]:
            start += 1
        stop = start
        while stop < min(len(done), start + most) and not done[stop]:
            stop += 1
        return start, stop

    @abstractmethod
    def done(self, phase: str) -> npt.NDArray[np.bool_]:
        """Which rows are done in a phase."""

    @abstractmethod
    def record(self, phase: str, start: int, stop: int) -> None:
        """These rows are done in a phase."""

    @abstractmethod
    def remember(self, name: str, value: float) -> float:
        """A number that a job finds out once; an earlier run's value wins."""

    @abstractmethod
    def finish(self) -> Scores:
        """The whole matrix."""

    @abstractmethod
    def close(self) -> None:
        """Let go of files."""


class InMemory(Output):
    """A matrix in memory, new or the caller's."""

    def __init__(self, shape: tuple[int, int], scores: Scores | None = None) -> None:
        if scores is not None and (scores.shape != shape or scores.dtype != np.float32):
            raise InputError(f"out must be float32 of shape {shape}, not {scores.dtype} of shape {scores.shape}")
        self.scores = np.empty(shape, np.float32) if scores is None else scores

    def done(self, phase: str) -> npt.NDArray[np.bool_]:
        """Nothing, in memory: there is no earlier run."""
        return np.zeros(len(self.scores), bool)

    def record(self, phase: str, start: int, stop: int) -> None:
        """Nothing to write down."""

    def remember(self, name: str, value: float) -> float:
        """The number itself."""
        return value

    def finish(self) -> Scores:
        """The matrix."""
        return self.scores

    def close(self) -> None:
        """Nothing to let go of."""


class OnDisk(Output):
    """A memory-mapped matrix with a record of what is done."""

    def __init__(self, path: Path, shape: tuple[int, int], fingerprint: str) -> None:
        if path.suffix != ".npy":
            raise InputError(f"{path}: a matrix on disk must be named .npy")
        if path.exists():
            raise InputError(f"{path} exists already: delete it, or give another name")
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self._part = path.with_name(path.name + ".part")
        self._progress = path.with_name(path.name + ".part.progress")
        self._lock = WriterLock(path.with_name(path.name + ".part.lock"))
        try:
            self._done: dict[str, npt.NDArray[np.bool_]] = {}
            self._numbers: dict[str, float] = {}
            self._shape = shape
            if self._progress.exists():
                self._continue(fingerprint)
            else:
                self._begin(fingerprint)
            self.scores = np.load(self._part, mmap_mode="r+") if 0 not in shape else np.empty(shape, np.float32)
            self._file = self._progress.open("ab", buffering=0)
        except BaseException:
            self._lock.release()
            raise

    def _begin(self, fingerprint: str) -> None:
        if 0 in self._shape:
            np.save(self._part.open("wb"), np.empty(self._shape, np.float32))
        else:
            np.lib.format.open_memmap(self._part, "w+", np.float32, self._shape)
        first = _line({"job": fingerprint, "images": self._shape[0], "sentences": self._shape[1]})
        write_whole(self._progress, first, durable=True)

    def _continue(self, fingerprint: str) -> None:
        content = self._progress.read_bytes()
        whole = content[: content.rfind(b"\n") + 1]  # a line cut short by a kill never happened
        first, *rest = [json.loads(line) for line in whole.splitlines()]
        found = (first["job"], first["images"], first["sentences"])
        if found != (fingerprint, *self._shape):
            raise InputError(
                f"{self._part} belongs to another job ({found[1]} images x {found[2]} sentences, or another model, "
                f"other sentences, images or settings): delete it and {self._progress.name}, or give another name"
            )
        with self._progress.open("r+b") as file:
            file.truncate(len(whole))
        for line in rest:
            if "number" in line:
                self._numbers[line["number"]] = line["value"]
            else:
                self.done(line["phase"])[line["start"] : line["stop"]] = True

    def done(self, phase: str) -> npt.NDArray[np.bool_]:
        """Which rows are done in a phase, by this run or an earlier one."""
        return self._done.setdefault(phase, np.zeros(self._shape[0], bool))

    def record(self, phase: str, start: int, stop: int) -> None:
        """Force the scores to the disk, then the line that says so."""
        if isinstance(self.scores, np.memmap):
            self.scores.flush()
        self._file.write(_line({"phase": phase, "start": start, "stop": stop}))
        os.fsync(self._file.fileno())
        self.done(phase)[start:stop] = True

    def remember(self, name: str, value: float) -> float:
        """What an earlier run wrote down, or the number, written down for later ones."""
        if name not in self._numbers:
            self._file.write(_line({"number": name, "value": value}))
            os.fsync(self._file.fileno())
            self._numbers[name] = value
        return self._numbers[name]

    def finish(self) -> Scores:
        """Give the matrix its name; it is mapped, not read."""
        if isinstance(self.scores, np.memmap):
            self.scores.flush()
        del self.scores
        self._part.rename(self.path)
        self._file.close()
        self._progress.unlink()
        self._lock.path.unlink(missing_ok=True)
        result: Scores = np.load(self.path, mmap_mode="r" if 0 not in self._shape else None)
        return result

    def close(self) -> None:
        """Keep what is done for the next run."""
        self._file.close()
        self._lock.release()


def _line(content: dict[str, Any]) -> bytes:
    return (json.dumps(content) + "\n").encode()
