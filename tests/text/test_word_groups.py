"""Which words name a step together."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smlstm.text.function_words import is_function_word
from smlstm.text.word_groups import word_groups

WORDS = ("a", "the", "of", "dog", "red", "runs", "on", "is", "two", "men", "zorblax", "it")


@pytest.mark.parametrize(
    ("sentence", "groups"),
    [
        ("a brown dog is running along the beach", ["a brown dog", "running", "the beach"]),
        ("two men playing guitar on a stage", ["two men", "playing", "guitar", "a stage"]),
        ("a group of people stand by the side of a house", ["a group of people", "stand", "the side", "a house"]),
        ("he is smiling", ["smiling"]),
        ("on the", ["on", "the"]),  # nothing else is there
        ("running fast", ["running fast"]),
        ("", []),
    ],
)
def test_groups(sentence, groups):
    words = sentence.split()
    assert [" ".join(words[span.first : span.last]) for span in word_groups(words)] == groups


@given(
    st.lists(
        st.sampled_from(["a", "the", "of", "dog", "red", "runs", "on", "is", "two", "men", "zorblax", "it"]),
        min_size=1,
        max_size=12,
    )
)
def test_every_word_that_says_something_is_in_one_group_and_no_group_is_silent(words):
    found = word_groups(words)
    inside = [place for span in found for place in range(span.first, span.last)]
    assert inside == sorted(set(inside)) and found
    says = {place for place, word in enumerate(words) if not is_function_word(word)}
    assert says <= set(inside)
    assert not says or all(says & set(range(span.first, span.last)) for span in found)
