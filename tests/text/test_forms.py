"""Unknown words that are another form of a known one."""

import pytest

from smlstm.text import Vocabulary
from smlstm.text.forms import other_form


@pytest.mark.parametrize(
    ("word", "known", "form"),
    [
        ("kayaks", "kayak", "kayak"),
        ("kayak", "kayaks", "kayaks"),
        ("kayaking", "kayak", "kayak"),
        ("kayaker's", "kayak", None),  # two steps away
        ("dog's", "dog", "dog"),
        ("puppies", "puppy", "puppy"),
        ("puppy", "puppies", "puppies"),
        ("buses", "bus", "bus"),
        ("riding", "ride", "ride"),
        ("ride", "riding", "riding"),
        ("jogging", "jog", "jog"),
        ("jog", "jogging", "jogging"),
        ("jumped", "jumping", "jumping"),
        ("grass", "gras", None),  # not a plural
        ("is", "i", None),  # too short to be a form of anything
        ("schnauzer", "dog", None),
    ],
)
def test_other_forms(word, known, form):
    assert other_form(word, {known}) == form


def test_a_vocabulary_reads_other_forms_and_says_so():
    vocabulary = Vocabulary(("a", "dog", "kayak"))
    encoded = vocabulary.encode("A dog kayaking with a schnauzer")
    assert encoded.ids == [2, 3, 4, 1, 2, 1]
    assert encoded.unknown == ["with", "schnauzer"]
    assert encoded.read_as == {"kayaking": "kayak"}
    assert vocabulary.unknown_words(["dogs kayak"]) == []


def test_known_words_stay_as_they_are():
    vocabulary = Vocabulary(("dog", "dogs"))
    assert vocabulary.encode("dogs dog").ids == [3, 2] and not vocabulary.encode("dogs dog").read_as
