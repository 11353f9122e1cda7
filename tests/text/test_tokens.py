import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smlstm.text import tokenise


@pytest.mark.parametrize(
    ("sentence", "words"),
    [
        ("Two dogs don't run, 3 DO!", ["two", "dogs", "don't", "run", "3", "do"]),
        ("", []),
        (" ...!? -- ", []),
        ("'quoted' rock 'n' roll'", ["quoted", "rock", "n", "roll"]),
        ("a t-shirt, size_10", ["a", "t", "shirt", "size", "10"]),
        ("don\u2019t \u2018stop\u2019", ["don't", "stop"]),
        ("CAFE\u0301 und Stra\u00dfe", ["café", "und", "straße"]),
        ("\uff34\uff37\uff2f dogs \u2163", ["two", "dogs", "iv"]),
        ("soft\u00adhyphen", ["softhyphen"]),
        ("हिन्दी में", ["हिन्दी", "में"]),
        ("مُحَمَّد يَجْرِي", ["مُحَمَّد", "يَجْرِي"]),
        ("שָׁלוֹם", [unicodedata.normalize("NFKC", "שָׁלוֹם")]),
        ("می\u200cخواهم", ["می\u200cخواهم"]),  # noqa: RUF001
        ("dog\u200d", ["dog"]),
        ("a \u2764\ufe0f dog \U0001f415", ["a", "dog"]),
        ("две собаки", ["две", "собаки"]),
        ("٣ dogs", ["٣", "dogs"]),
    ],
)
def test_a_sentence_becomes_its_words(sentence: str, words: list[str]) -> None:
    assert tokenise(sentence) == words


def test_marks_without_end_are_cut_so_that_no_sentence_takes_long() -> None:
    """Some of these took a quarter of an hour: the time to put marks in order grows with the square of their number."""
    for marks in ("\u0301\u0316", "\u0301\u00ad\u0316", "\uff9e\u0301", "\u0344\u0316", "\u0301\u0f71\u0f74"):
        (word, end) = tokenise("a" + marks * 500_000 + " dog")
        assert end == "dog" and len(word) <= 31 and tokenise(word) == [word]


def test_as_many_marks_as_anyone_writes_stay() -> None:
    marks = "".join(map(chr, range(0x326, 0x326 + 28)))
    assert tokenise(f"z{marks} dog") == [unicodedata.normalize("NFKC", f"z{marks}"), "dog"]


@given(st.text())
def test_any_string_gives_words_that_stay_as_they_are(sentence: str) -> None:
    words = tokenise(sentence)
    assert all(words)
    assert tokenise(" ".join(words)) == words


@given(st.text(alphabet=st.characters(max_codepoint=127)))
def test_plain_and_unicode_paths_agree(sentence: str) -> None:
    assert tokenise(sentence) == tokenise(sentence + " \u2026")


@given(st.text(alphabet=st.characters(max_codepoint=0x24F)))
def test_case_does_not_matter_in_latin_scripts(sentence: str) -> None:
    assert tokenise(sentence) == tokenise(sentence.lower())


@given(st.lists(st.characters(categories=("Cs",)), max_size=5))
def test_lone_surrogates_are_dropped(surrogates: list[str]) -> None:
    assert tokenise("a " + "".join(surrogates) + " dog") == ["a", "dog"]
