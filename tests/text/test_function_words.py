from smlstm.text.function_words import FUNCTION_WORDS, is_function_word
from smlstm.text.tokens import tokenise


def test_what_holds_a_sentence_together_is_told_from_what_it_is_about():
    words = [
        "two",
        "men",
        "with",
        "a",
        "red",
        "can",
        "are",
        "sitting",
        "next",
        "to",
        "their",
        "dog",
        "and",
        "it",
        "isn't",
        "barking",
    ]
    assert [word for word in words if not is_function_word(word)] == [
        "two", "men", "red", "can", "sitting", "dog", "barking",
    ]  # fmt: skip


def test_function_words_are_spelled_as_the_tokeniser_spells_words():
    assert all(tokenise(word) == [word] for word in FUNCTION_WORDS)
