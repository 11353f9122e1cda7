"""Training captions as a language model reads them: word vectors on disk, read once.

    runs/NAME/sentences/DIGEST.f16     float16, words of all captions one after the other, 384 numbers each
    runs/NAME/sentences/DIGEST.part    the same in the making; an interrupted run goes on behind the last whole part

A hundred thousand captions take minutes to read and 1 GB of disk; training draws a hundred of them at a time.
"""

import hashlib
import os
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from smlstm.matcher import Matcher
from smlstm.scoring.progress import Progress, ProgressCallback
from smlstm.text import tokenise
from smlstm.text.language_model import WIDTH, language_model
from smlstm.training.distributed import Processes
from smlstm.training.examples import CaptionTokens, Examples, Integers
from smlstm.training.watching import Watcher

_PART = 1024
"""Captions that are read, and written, together."""


class CaptionVectors:
    """Word vectors of all captions, on disk."""

    def __init__(self, path: Path, lengths: Integers) -> None:
        self._starts = np.concatenate([[0], np.cumsum(lengths)])
        self._vectors: npt.NDArray[np.float16] = np.memmap(path, np.float16, "r", shape=(int(self._starts[-1]), WIDTH))

    def select(self, captions: Integers) -> Tensor:
        """Those of some captions, zero on padding; N, J, 384."""
        lengths = self._starts[captions + 1] - self._starts[captions]
        vectors = np.zeros((len(captions), int(lengths.max()), WIDTH), np.float16)
        for place, caption in enumerate(captions):
            vectors[place, : lengths[place]] = self._vectors[self._starts[caption] : self._starts[caption + 1]]
        return torch.from_numpy(vectors)


def encode_captions(
    matcher: Matcher, examples: Examples, folder: Path, processes: Processes, watcher: Watcher
) -> CaptionTokens:
    """All captions as a matcher wants them; what a language model has to say is read now or found in `folder`."""
    tokens = examples.encode(matcher.vocabulary, matcher.config.max_words)
    if not matcher.config.language_model:
        return tokens
    words = [tokenise(caption)[: matcher.config.max_words] for caption in examples.captions]
    digest = hashlib.blake2b("\n".join(" ".join(each) for each in words).encode(), digest_size=8).hexdigest()
    path = folder / f"{matcher.config.language_model}-{digest}.f16"
    if processes.first and not path.exists():
        with watcher.scoring(f"Reading {len(words):,} captions with a language model", "captions") as progress:
            read_captions(words, path, progress)
    processes.wait()
    return replace(tokens, vectors=CaptionVectors(path, tokens.lengths))


def read_captions(words: Sequence[Sequence[str]], path: Path, progress: ProgressCallback | None = None) -> None:
    """Write the vectors of all captions, behind what an interrupted call has written of them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    ends = np.cumsum([len(each) for each in words]) * WIDTH * np.dtype(np.float16).itemsize
    began = time.monotonic()
    with part.open("ab") as file:
        done = int(np.searchsorted(ends, file.tell(), side="right")) // _PART * _PART
        file.truncate(int(ends[done - 1]) if done else 0)
        for start in range(done, len(words), _PART):
            for vectors in language_model().read(words[start : start + _PART]):
                file.write(vectors.numpy().tobytes())
            if progress is not None:
                end = min(start + _PART, len(words))
                progress(Progress(end, len(words), time.monotonic() - began, done))
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)
