"""Flickr30k Entities: phrases, words, boxes."""

import numpy as np
import pytest

from smlstm.data.entities import Entities
from smlstm.errors import InputError
from smlstm.text import tokenise

SENTENCES = """[/EN#1/people Two young guys] with [/EN#2/bodyparts shaggy hair] look at [/EN#0/notvisual their hands] .
[/EN#3/scene/other The yard] , and [/EN#1/people they] 're in [/EN#4/other it] !

"""
BOX = "<bndbox><xmin>{}</xmin><ymin>{}</ymin><xmax>{}</xmax><ymax>{}</ymax></bndbox>"
ANNOTATION = f"""<annotation><filename>36.jpg</filename>
<size><width>200</width><height>100</height><depth>3</depth></size>
<object><name>1</name><name>4</name>{BOX.format(0, 0, 50, 100)}</object>
<object><name>1</name>{BOX.format(150, 0, 199, 50)}</object>
<object><name>3</name><scene>1</scene><nobndbox>0</nobndbox></object>
</annotation>"""


@pytest.fixture
def folder(tmp_path):
    for name in ("Annotations", "Sentences"):
        (tmp_path / name).mkdir()
    (tmp_path / "Sentences" / "36.txt").write_text(SENTENCES, encoding="utf-8")
    (tmp_path / "Annotations" / "36.xml").write_text(ANNOTATION, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("key", ["36.jpg", "36_a4e66ec76b.jpg"])
def test_phrases_know_their_words_and_boxes(folder, key):
    entities = Entities(folder)
    assert key in entities and "37.jpg" not in entities
    photo = entities.read(key)
    assert photo.size == (200, 100)
    first, second = photo.captions
    assert first.text == "Two young guys with shaggy hair look at their hands ."
    assert [phrase.text for phrase in first.phrases] == ["Two young guys", "shaggy hair", "their hands"]
    for caption in photo.captions:
        words = tokenise(caption.text)
        for phrase in caption.phrases:
            assert words[phrase.first : phrase.last] == tokenise(phrase.text)
    assert first.phrases[0].boxes == ((0, 0, 50, 100), (150, 0, 199, 50))
    assert [len(phrase.boxes) for phrase in second.phrases] == [0, 2, 1]
    assert second.phrases[0].kinds == ("scene", "other")


def test_regions_are_in_a_box_by_their_middle(folder):
    photo = Entities(folder).read("36.jpg")
    on = photo.regions_of(photo.captions[0].phrases[0], 4).reshape(4, 4)
    np.testing.assert_array_equal(on[:, 0], True)  # middles at 25 of 200
    np.testing.assert_array_equal(on[:, 1:3], False)
    np.testing.assert_array_equal(on[:, 3], [True, True, False, False])


def test_what_is_not_there_is_said(folder, tmp_path):
    with pytest.raises(InputError, match="no folder Annotations"):
        Entities(tmp_path / "Sentences")
    (folder / "Annotations" / "36.xml").write_text("<annotation><size><width>x</width></size></annotation>")
    with pytest.raises(InputError, match="36.xml is not a file of boxes"):
        Entities(folder).read("36.jpg")
    (folder / "Annotations" / "36.xml").unlink()
    with pytest.raises(InputError, match="36.xml is missing"):
        Entities(folder).read("36.jpg")
