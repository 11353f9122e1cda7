import json

import numpy as np
import pytest

from smlstm.errors import InputError
from smlstm.evaluation.gallery import Gallery
from smlstm.evaluation.matrices import Sum, load_matrices, reserve
from smlstm.evaluation.models import Candidate
from tests.evaluation.made import SPEC, noisy


def gallery(images: int = 6, word: str = "dog") -> Gallery:
    captions = tuple(f"{word} {n}" for n in range(2 * images))
    return Gallery("made", "dev", tuple(f"{n}.jpg" for n in range(images)), captions, np.repeat(np.arange(images), 2))


def save(folder, name: str = "one", seed: int = 0, of: Gallery | None = None):
    of = of or gallery()
    path = reserve(folder, Candidate(name, None, name), of, SPEC, "float32")
    np.save(path, noisy(len(of.keys), 2, 1.0, seed)[0])
    return path


def test_what_was_saved_is_loaded_with_its_images_and_captions(tmp_path):
    first, second = load_matrices([save(tmp_path, "one", 0), save(tmp_path, "runs/two", 1)])
    assert (first.name, second.name) == ("one", "runs/two")
    assert np.array_equal(first.scores, noisy(6, 2, 1.0, 0)[0])
    assert first.gallery.captions == gallery().captions
    assert (tmp_path / "runs--two.npy").exists()
    card = json.loads((tmp_path / "one.json").read_text())
    assert card["images"] == list(gallery().keys)
    assert card["features"]["backbone"] == "patches"


def test_other_images_or_captions_are_refused(tmp_path):
    one = save(tmp_path / "a")
    with pytest.raises(InputError, match="not of the same images as"):
        load_matrices([one, save(tmp_path / "b", of=gallery(7))])
    with pytest.raises(InputError, match="not of the same captions as"):
        load_matrices([one, save(tmp_path / "c", of=gallery(word="cat"))])
    with pytest.raises(InputError, match="given twice"):
        load_matrices([one, one])


def test_models_of_one_name_are_told_apart_by_their_folders(tmp_path):
    names = [matrix.name for matrix in load_matrices([save(tmp_path / "a"), save(tmp_path / "b", seed=1)])]
    assert names == ["a/one", "b/one"]


def test_damage_is_named(tmp_path):
    path = save(tmp_path)
    card = path.with_suffix(".json")
    whole = card.read_text()
    np.save(path, np.zeros((2, 2), np.float32))
    with pytest.raises(InputError, match=r"shape \(2, 2\), its card says float32 of shape \(6, 12\)"):
        load_matrices([path])
    path.write_bytes(b"no array")
    with pytest.raises(InputError, match="not a whole .npy array"):
        load_matrices([path])
    card.write_text(whole.replace("dog 3", "dog 33"))
    with pytest.raises(InputError, match="one.json was changed"):
        load_matrices([path])
    card.write_text('{"format": "smlstm-similarities", "version": 1}')
    with pytest.raises(InputError, match="is not whole"):
        load_matrices([path])
    card.write_text("[]")
    with pytest.raises(InputError, match='does not say "format"'):
        load_matrices([path])
    card.unlink()
    with pytest.raises(InputError, match="one.json is missing"):
        load_matrices([path])
    with pytest.raises(InputError, match="no saved matrix"):
        load_matrices([tmp_path / "none.npy"])
    with pytest.raises(InputError, match="no matrix is given"):
        load_matrices([])


def test_the_same_job_may_go_on_and_another_may_not_overwrite(tmp_path):
    path = save(tmp_path)
    assert reserve(tmp_path, Candidate("one", None, "one"), gallery(), SPEC, "float32") == path
    for other in (
        (Candidate("one", None, "other weights"), gallery(), SPEC, "float32"),
        (Candidate("one", None, "one"), gallery(word="cat"), SPEC, "float32"),
        (Candidate("one", None, "one"), gallery(), SPEC, "bfloat16"),
    ):
        with pytest.raises(InputError, match="delete it, or save into another folder"):
            reserve(tmp_path, *other)
    path.unlink()
    reserve(tmp_path, Candidate("one", None, "other weights"), gallery(), SPEC, "float32")


@pytest.mark.parametrize("content", ['{"key": 1}', "[]", "no JSON"])
def test_a_file_of_someone_else_is_not_overwritten(tmp_path, content):
    (tmp_path / "one.json").write_text(content)
    with pytest.raises(InputError, match=r"one\.json was not written by `smlstm evaluate --save`"):
        reserve(tmp_path, Candidate("one", None, "one"), gallery(), SPEC, "float32")
    assert (tmp_path / "one.json").read_text() == content


@pytest.mark.parametrize("standardised", [False, True])
def test_the_sum_is_the_ensembles(standardised, monkeypatch):
    monkeypatch.setattr("smlstm.evaluation.matrices._ROWS", 4)
    parts = [noisy(11, 2, 1.0, seed)[0] * 3**seed + seed for seed in range(3)]
    total = Sum(standardised)
    for part in parts:
        total.add(part)
    expected = sum((part - part.mean()) / part.std() if standardised else part for part in parts)
    np.testing.assert_allclose(total.scores, expected, rtol=1e-4, atol=1e-5)


def test_equal_scores_have_a_deviation_that_can_be_divided_by():
    total = Sum(standardised=True)
    total.add(np.full((3, 4), 7.0, np.float32))
    assert (total.scores == 0).all()
