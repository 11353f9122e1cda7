import pytest
from hypothesis import given
from hypothesis import strategies as st

from smlstm.errors import ConfigurationError
from smlstm.text import PADDING, UNKNOWN, Vocabulary, tokenise

captions = st.lists(st.text(max_size=40), max_size=20)


def test_frequent_words_come_first_and_rare_ones_stay_unknown() -> None:
    vocabulary = Vocabulary.build(["a dog and a cat", "A dog runs", "the cat"], minimum_count=2)
    assert vocabulary.words == ("a", "cat", "dog")
    assert len(vocabulary) == 5
    assert vocabulary.word(PADDING) == "<pad>"
    assert vocabulary.word(UNKNOWN) == "<unk>"
    encoded = vocabulary.encode("A dog jumps over the dog")
    assert [vocabulary.word(row) for row in encoded.ids] == ["a", "dog", "<unk>", "<unk>", "<unk>", "dog"]
    assert encoded.unknown == ["jumps", "over", "the"]
    assert encoded.dropped == 0


def test_words_beyond_the_limit_are_counted() -> None:
    encoded = Vocabulary.build(["one two three"]).encode("one two three four five", limit=3)
    assert len(encoded.ids) == 3
    assert encoded.dropped == 2
    assert encoded.unknown == []


def test_unknown_words_are_reported_once() -> None:
    vocabulary = Vocabulary.build(["a dog"])
    assert vocabulary.unknown_words(["a cat", "a cat and a bird"]) == ["cat", "and", "bird"]


@given(captions, st.integers(1, 3))
def test_order_of_captions_does_not_matter(sentences: list[str], minimum: int) -> None:
    assert Vocabulary.build(sentences, minimum) == Vocabulary.build(reversed(sentences), minimum)


@given(captions)
def test_every_word_of_the_captions_is_known_and_comes_back(sentences: list[str]) -> None:
    vocabulary = Vocabulary.build(sentences)
    for sentence in sentences:
        encoded = vocabulary.encode(sentence)
        assert encoded.unknown == []
        assert PADDING not in encoded.ids
        assert [vocabulary.word(row) for row in encoded.ids] == tokenise(sentence)


@given(captions, st.integers(1, 3))
def test_saved_and_read_it_is_the_same(sentences: list[str], minimum: int) -> None:
    vocabulary = Vocabulary.build(sentences, minimum)
    assert Vocabulary.from_json(vocabulary.to_json()) == vocabulary


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not JSON"),
        ("[]", "\"format\" is 'list'"),
        ('{"format": 2}', '"format" is 2'),
        ('{"format": 1, "words": "dog"}', '"words" must be a list of strings'),
        ('{"format": 1, "words": ["dog"], "minimum_count": "2"}', '"minimum_count" must be a whole number'),
        ('{"format": 1, "words": ["dog", "dog"]}', '"dog" is listed twice'),
    ],
)
def test_a_file_that_does_not_fit_is_refused_by_the_field(text: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message.replace("[", r"\[")):
        Vocabulary.from_json(text)
