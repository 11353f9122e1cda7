from pathlib import Path

import pytest

from smlstm.data import Dataset, Record
from smlstm.errors import ConfigurationError, InputError
from smlstm.evaluation.gallery import read_gallery


def dataset(*captions: tuple[str, ...], split: str = "dev") -> Dataset:
    records = [Record(f"{n}.jpg", Path(f"{n}.jpg"), each, split) for n, each in enumerate(captions)]
    return Dataset("made", Path("/made"), tuple(records))


def test_captions_know_their_image_whatever_their_number():
    gallery, records, notes = read_gallery(dataset(("a dog", "a cat"), ("a man",), ("x", "y", "z")), "val")
    assert gallery.image_of.tolist() == [0, 0, 1, 2, 2, 2]
    assert gallery.split == "dev"
    assert [record.key for record in records] == list(gallery.keys) == ["0.jpg", "1.jpg", "2.jpg"]
    assert notes == []


def test_what_cannot_be_ranked_is_left_out_and_said():
    gallery, _, notes = read_gallery(dataset(("a dog", "..."), (), ("...",), ("a man",)), "dev", images=5)
    assert gallery.keys == ("0.jpg", "3.jpg")
    assert gallery.captions == ("a dog", "a man")
    assert notes == [
        "2 captions have no words: left out",
        "2 of 4 dev images have no caption: left out",
        "the dev split has 2 images, fewer than 5",
    ]


def test_the_first_images_only():
    gallery, records, _ = read_gallery(dataset(*[(f"dog {n}",) for n in range(6)]), "dev", images=2)
    assert gallery.captions == ("dog 0", "dog 1")
    assert len(records) == 2


def test_no_captions_and_no_split_are_refused():
    with pytest.raises(InputError, match="no captions in its dev split"):
        read_gallery(dataset((), ()), "dev")
    with pytest.raises(ConfigurationError, match='no "test" split; it has dev'):
        read_gallery(dataset(("a",)), "test")


def test_a_fingerprint_tells_order_captions_and_images_apart():
    same = [read_gallery(dataset(("a", "b"), ("c",)), "dev")[0].fingerprint for _ in range(2)]
    others = [dataset(("b", "a"), ("c",)), dataset(("a",), ("b", "c")), dataset(("a", "b"), ("d",))]
    assert same[0] == same[1]
    assert len({same[0], *(read_gallery(each, "dev")[0].fingerprint for each in others)}) == 4
