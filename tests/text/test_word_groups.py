"""Which words name a step together."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smlstm.text.function_words import is_function_word
from smlstm.text.word_groups import named_things, phrase_numbers, word_groups

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


@pytest.mark.parametrize(
    ("sentence", "things", "numbers"),
    [
        ("a brown dog is running along the beach", ["a brown dog", "the beach"], [0, 1, 1, 0, 0, 0, 0, 2]),
        ("a group of people", ["a group of people"], [0, 1, 0, 1]),
        ("he is smiling", ["smiling"], [0, 0, 1]),  # no noun phrase says anything
        ("on the", ["on", "the"], [1, 2]),
        ("", [], []),
    ],
)
def test_what_a_sentence_names(sentence, things, numbers):
    words = sentence.split()
    assert [" ".join(words[span.first : span.last]) for span in named_things(words)] == things
    assert phrase_numbers(words) == numbers


@given(st.lists(st.sampled_from(WORDS), min_size=1, max_size=12))
def test_every_thing_has_a_word_and_they_are_counted_from_left_to_right(words):
    numbers = [number for number in phrase_numbers(words) if number]
    assert numbers == sorted(numbers)
    assert set(numbers) == set(range(1, len(named_things(words)) + 1))
