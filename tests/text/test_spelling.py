"""Misspelt words are read as what was meant."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smlstm.text import Vocabulary
from smlstm.text.spelling import Spelling, slips_between

WORDS = (
    "dog",
    "dogs",
    "beach",
    "horse",
    "guitar",
    "bicycle",
    "birthday",
    "mountain",
    "elegant",
    "elephant",
    "house",
    "swimming",
    "there",
)
VOCABULARY = Vocabulary(WORDS)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("bicicle", "bicycle"),
        ("gutar", "guitar"),
        ("gutiar", "guitar"),
        ("ugitar", "guitar"),
        ("birtday", "birthday"),
        ("swiming", "swimming"),
        ("elefant", "elephant"),  # which sounds alike, and not "elegant"
        ("hoese", "horse"),  # as near as "house", which is rarer
    ],
)
def test_what_is_meant(typed, meant):
    assert VOCABULARY.meant(typed) == meant


@pytest.mark.parametrize(
    "typed",
    ["dog", "dgo", "hors", "zicycle", "route66", "bcccle", "", "monet", "mount", "houses", "beech", "ther", "theer"],
)
def test_known_words_short_words_english_words_and_names_are_left(typed):
    assert VOCABULARY.meant(typed) is None


@given(st.text("abc", max_size=6), st.text("abc", max_size=6))
def test_slips_are_the_fewest_there_can_be(first, second):
    found = slips_between(first, second)
    assert found == slips_between(second, first) == literal(first, second)


def literal(first: str, second: str) -> int:
    """Optimal string alignment by its definition."""
    if not first or not second:
        return len(first) + len(second)
    choices = [
        literal(first[:-1], second) + 1,
        literal(first, second[:-1]) + 1,
        literal(first[:-1], second[:-1]) + (first[-1] != second[-1]),
    ]
    if len(first) > 1 and len(second) > 1 and first[-2:] == second[:-3:-1]:
        choices.append(literal(first[:-2], second[:-2]) + 1)
    return min(choices)


def test_the_most_frequent_of_the_nearest_is_taken():
    assert Spelling(["boats", "boots"]).meant("boxts") == "boats"
    assert Spelling(["boots", "boats"]).meant("boxts") == "boots"
