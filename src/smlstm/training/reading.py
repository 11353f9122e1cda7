"""Training captions as a language model reads them: word vectors on disk, read once.

    runs/NAME/sentences/minilm-DIGEST.f16   float16, words of all captions one after the other, 384 numbers each
    runs/NAME/sentences/minilm-DIGEST.part  the same in the making; an interrupted run goes on behind its last part

A hundred thousand captions take minutes to read and 1 GB of disk; training draws a hundred of them at a time. They are
read in bfloat16 where the processor multiplies it natively: twice as fast, and 0.6 % off.
"""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from smlstm.data.lock import Locked, WriterLock
from smlstm.errors import InputError, SmlstmError
from smlstm.files import fingerprint, sync_folder
from smlstm.matching.matcher import Matcher
from smlstm.scoring import choose_precision
from smlstm.scoring.progress import Progress, ProgressCallback
from smlstm.text import tokenise
from smlstm.text.language_model import WIDTH, language_model
from smlstm.training.distributed import Processes
from smlstm.training.examples import CaptionTokens, Examples, Integers
from smlstm.training.stopping import Stopping
from smlstm.training.watchers import Watcher

_PART = 1024
"""Captions that are read, and written, together."""


class CaptionVectors:
    """Word vectors of all captions, on disk."""

    def __init__(self, path: Path, lengths: Integers, own: "OwnPieces | None" = None) -> None:
        self._own = own
        self._starts = np.concatenate([[0], np.cumsum(lengths)])
        expected = int(self._starts[-1]) * WIDTH * np.dtype(np.float16).itemsize
        if path.stat().st_size != expected:
            raise InputError(
                f"{path} has {path.stat().st_size} bytes instead of {expected}: delete it, it is made anew"
            )
        self._vectors: npt.NDArray[np.float16] = np.memmap(path, np.float16, "r", shape=(int(self._starts[-1]), WIDTH))

    def select(self, captions: Integers) -> Tensor:
        """Those of some captions, zero on padding; N, J, 384, or twice as wide with the words' own pieces."""
        lengths = self._starts[captions + 1] - self._starts[captions]
        width = WIDTH if self._own is None else 2 * WIDTH
        vectors = np.zeros((len(captions), int(lengths.max()), width), np.float16)
        for place, caption in enumerate(captions):
            words = slice(int(self._starts[caption]), int(self._starts[caption + 1]))
            vectors[place, : lengths[place], :WIDTH] = self._vectors[words]
            if self._own is not None:
                vectors[place, : lengths[place], WIDTH:] = self._own[words]
        return torch.from_numpy(vectors)


class OwnPieces:
    """What each word of all captions is by itself, each word kept once."""

    def __init__(self, captions: Sequence[Sequence[str]]) -> None:
        rows: dict[str, int] = {}
        self._rows = np.array([rows.setdefault(word, len(rows)) for words in captions for word in words], np.int32)
        self._pieces = language_model().own(list(rows)).numpy()

    def __getitem__(self, words: slice) -> npt.NDArray[np.float16]:
        """Of some words, counted over all captions; words, 384."""
        found: npt.NDArray[np.float16] = self._pieces[self._rows[words]]
        return found


class ReadingStoppedError(SmlstmError):
    """Reading was interrupted, or its time was up; what was read is kept."""


def encode_captions(
    matcher: Matcher, examples: Examples, folder: Path, *, processes: Processes, stopping: Stopping, watcher: Watcher
) -> CaptionTokens:
    """All captions as a matcher wants them; what a language model has to say is read now or found in `folder`."""
    tokens = examples.encode(matcher.vocabulary, matcher.config.max_words, matcher.reads_phrases)
    name = matcher.config.language_model
    if not name:
        return tokens
    words = [tokenise(caption)[: matcher.config.max_words] for caption in examples.captions]
    dtype = choose_precision("auto", torch.device("cpu"))
    read_with = f"{language_model().digest}{'' if dtype == torch.float32 else dtype}"
    digest = fingerprint([read_with, "\n".join(" ".join(each) for each in words)], 8)
    path = folder / f"{name}-{digest}.f16"
    stopped = False
    if processes.first and not path.exists():
        with watcher.scoring(f"Reading {len(words):,} captions with a language model", "captions") as progress:
            stopped = not _read_alone(words, path, stopping, progress, dtype)
    if processes.agree(stopped):
        raise ReadingStoppedError(stopping.reason or "interrupted")
    own = OwnPieces(words) if matcher.config.own_pieces else None
    return replace(tokens, vectors=CaptionVectors(path, tokens.lengths, own))


def _read_alone(
    words: Sequence[Sequence[str]],
    path: Path,
    stopping: Stopping,
    progress: ProgressCallback | None,
    dtype: torch.dtype,
) -> bool:
    """Read, or wait for another process that is reading the same; False if told to stop before the end."""
    path.parent.mkdir(parents=True, exist_ok=True)
    while not path.exists():
        if stopping.reason:
            return False
        try:
            lock = WriterLock(path.with_suffix(".lock"))
        except Locked:
            time.sleep(1)
            continue
        try:
            if not path.exists() and not read_captions(words, path, lambda: bool(stopping.reason), progress, dtype):
                return False
        finally:
            lock.release()
    return True


def read_captions(
    words: Sequence[Sequence[str]],
    path: Path,
    should_stop: Callable[[], bool] = lambda: False,
    progress: ProgressCallback | None = None,
    dtype: torch.dtype = torch.float32,
) -> bool:
    """Write the vectors of all captions, behind what an interrupted call wrote; False if stopped before the end."""
    part = path.with_suffix(".part")
    ends = np.cumsum([len(each) for each in words]) * WIDTH * np.dtype(np.float16).itemsize
    began = time.monotonic()
    with part.open("ab") as file:
        done = int(np.searchsorted(ends, file.tell(), side="right")) // _PART * _PART
        file.truncate(int(ends[done - 1]) if done else 0)
        for start in range(done, len(words), _PART):
            if should_stop():
                return False
            for vectors in language_model().read_once(words[start : start + _PART], dtype):
                file.write(vectors.numpy().tobytes())
            file.flush()
            os.fsync(file.fileno())
            if progress is not None:
                end = min(start + _PART, len(words))
                progress(Progress(end, len(words), time.monotonic() - began, done))
    part.replace(path)
    sync_folder(path.parent)
    return True
