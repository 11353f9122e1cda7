import multiprocessing
import os
import signal
from pathlib import Path

import numpy as np
import pytest

from smlstm.errors import InputError, SmlstmError
from smlstm.scoring import Cascade, Stream, score_all
from tests.scoring import made

IMAGES, SENTENCES, TILE = 30, 11, (2, 4)


def job(name: str):
    if name == "own list":
        return Cascade(None, made.smlstm("full-gated-product-whole"), 3)
    return Cascade(made.mnlm(), made.smlstm(), 3) if name == "cascade" else made.matcher(name)


def images(stream: bool = False):
    features = made.features(IMAGES)
    return Stream(IMAGES, [features.select(slice(at, at + 7)) for at in range(0, IMAGES, 7)]) if stream else features


def run_and_die(path: Path, name: str, stream: bool, pairs: int, cut: bool) -> None:
    """Kill this very process, without any chance to tidy up, once so many pairs are scored."""

    def show(progress) -> None:
        if progress.done >= pairs:
            if cut:  # as if the kill came in the middle of a line
                with Path(f"{path}.part.progress").open("ab") as file:
                    file.write(b'{"phase": "scores", "sta')
            os.kill(os.getpid(), signal.SIGKILL)

    score_all(job(name), images(stream), made.sentences(SENTENCES), out=path, tile=TILE, progress=show)


def killed(path: Path, name: str, stream: bool = False, pairs: int = 200, cut: bool = False) -> None:
    process = multiprocessing.get_context("spawn").Process(target=run_and_die, args=(path, name, stream, pairs, cut))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL


def test_a_matrix_on_disk_is_the_one_in_memory(tmp_path):
    path = tmp_path / "new folder" / "scores.npy"
    matcher, features, texts = made.matcher("full-joint-product"), made.features(IMAGES), made.sentences(SENTENCES)
    scores = score_all(matcher, features, texts, out=path, tile=TILE)
    assert isinstance(scores, np.memmap)
    np.testing.assert_allclose(scores, made.plain(matcher, features, texts), atol=1e-5)
    assert [file.name for file in path.parent.iterdir()] == ["scores.npy"]
    np.testing.assert_array_equal(np.load(path), scores)
    with pytest.raises(InputError, match=r"scores.npy exists already: delete it"):
        score_all(matcher, features, texts, out=path)
    with pytest.raises(InputError, match=r"must be named .npy"):
        score_all(matcher, features, texts, out=tmp_path / "scores")


@pytest.mark.parametrize(
    ("name", "stream", "pairs", "cut"),
    [
        ("full-gated-product", False, 200, True),
        ("full-gated-product", True, 150, False),
        ("cascade", False, 60, False),
        ("own list", False, 60, False),
        ("own list", True, 60, False),
    ],
)
def test_a_killed_job_continues_from_its_finished_rows(tmp_path, name, stream, pairs, cut):
    path = tmp_path / "scores.npy"
    killed(path, name, stream, pairs, cut)
    assert not path.exists()
    seen = []
    texts = made.sentences(SENTENCES)
    scores = score_all(job(name), images(stream), texts, out=path, tile=TILE, progress=seen.append)
    assert 0 < seen[0].resumed < seen[-1].total, "some rows must have been taken over"
    assert seen[-1].done == seen[-1].total
    np.testing.assert_allclose(scores, score_all(job(name), images(), texts), atol=1e-5)
    assert [file.name for file in tmp_path.iterdir()] == ["scores.npy"]


def test_another_job_does_not_continue_it(tmp_path):
    path = tmp_path / "scores.npy"
    killed(path, "full-gated-product")
    matcher, features, texts = made.matcher("full-gated-product"), made.features(IMAGES), made.sentences(SENTENCES)
    others = [
        (made.smlstm(hidden_width=7), features, texts),
        (matcher, made.features(IMAGES, seed=1), texts),
        (matcher, features, [*texts[:-1], "the dog"]),
        (matcher, features, texts[:-1]),
        (job("cascade"), features, texts),
    ]
    for other in others:
        with pytest.raises(InputError, match="belongs to another job"):
            score_all(*other, out=path)
    score_all(matcher, features, texts, out=path)


def test_an_interrupted_fill_of_a_cascade_continues(tmp_path, monkeypatch):
    path = tmp_path / "scores.npy"
    cascade, texts = job("cascade"), made.sentences(SENTENCES)
    expected = score_all(cascade, images(), texts)
    shortlist = cascade.shortlist(images(), texts)
    monkeypatch.setattr(type(shortlist.cheap), "block", 4)
    rows = type(shortlist.cheap).rows

    def stop(self, start, stop):
        if start >= 12:
            raise KeyboardInterrupt
        return rows(self, start, stop)

    with monkeypatch.context() as change:
        change.setattr(type(shortlist.cheap), "rows", stop)
        with pytest.raises(KeyboardInterrupt):
            cascade.score_all(images(), texts, out=path, shortlist=shortlist)
    np.testing.assert_allclose(score_all(cascade, images(), texts, out=path), expected, atol=1e-5)


def test_one_job_at_a_time_writes_a_matrix(tmp_path):
    path = tmp_path / "scores.npy"
    matcher, features, texts = made.matcher("mnlm"), made.features(IMAGES), made.sentences(SENTENCES)

    def again(_) -> None:
        with pytest.raises(SmlstmError, match="is being written by this process"):
            score_all(matcher, features, texts, out=path)

    score_all(matcher, features, texts, out=path, tile=(30, 11), progress=again)
