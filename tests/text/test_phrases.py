"""Which words belong together."""

import pytest

from smlstm.text.phrases import BEGIN, INSIDE, OUTSIDE, Span, learn, marks_of, noun_phrases, pack, read_marked, spans


@pytest.mark.parametrize(
    ("sentence", "phrases"),
    [
        ("a brown dog runs along the beach", ["a brown dog", "the beach"]),
        ("two men playing guitar on a stage with red lights", ["two men", "guitar", "a stage", "red lights"]),
        ("dog", ["dog"]),
        ("", []),
        ("a zorblax in the quirzle", ["a zorblax", "the quirzle"]),  # words that no caption has
    ],
)
def test_noun_phrases(sentence, phrases):
    words = sentence.split()
    assert [" ".join(words[span.first : span.last]) for span in noun_phrases(words)] == phrases


def test_marks_and_spans():
    assert spans([BEGIN, INSIDE, BEGIN, OUTSIDE, INSIDE]) == [Span(0, 2), Span(2, 3), Span(4, 5)]
    words, marks = read_marked("[/EN#1/people Two guys] look at [/EN#0/notvisual their hands] .")
    assert words == ["two", "guys", "look", "at", "their", "hands"]
    assert marks == [BEGIN, INSIDE, OUTSIDE, OUTSIDE, BEGIN, INSIDE]


def test_it_learns_and_packing_keeps_what_counts():
    lines = ["[/EN#1/a the cat] sees [/EN#2/a a dog]", "[/EN#1/a a bird] hears [/EN#2/a the cow]"] * 10
    weights = learn([read_marked(line) for line in lines])
    words = ["the", "bird", "sees", "a", "cow"]
    assert spans(marks_of(words, weights)) == [Span(0, 2), Span(3, 5)]
    packed = pack(weights)
    again = {name: dict(zip((OUTSIDE, BEGIN, INSIDE), numbers, strict=True)) for name, numbers in packed.items()}
    assert marks_of(words, again) == marks_of(words, weights)
