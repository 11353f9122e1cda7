"""The parts of a sentence that say something: its noun phrases, and what is said between them.

An article within a noun phrase begins another one: "the side of a house" names two things. A verb or an adverb outside
of noun phrases stands for itself, together with others right beside it; function words there ("is", "along") belong to
nothing.
"""

from collections.abc import Iterator, Sequence

from smlstm.text.function_words import is_function_word
from smlstm.text.phrases import Span, noun_phrases

_ARTICLES = frozenset(("a", "an", "the"))


def named_things(words: Sequence[str]) -> list[Span]:
    """What a sentence names: its noun phrases; where it has none, the other groups. At least one if it has words.

    >>> [(each.first, each.last) for each in named_things("a brown dog is running along the beach".split())]
    [(0, 3), (6, 8)]
    """
    phrases = _noun_phrases(words)
    return phrases or word_groups(words)


def phrase_numbers(words: Sequence[str]) -> list[int]:
    """For each word, which of the things that the sentence names it helps to name, counted from 1; 0: none.

    Function words help to name nothing, unless there is nothing else.

    >>> phrase_numbers("a brown dog is running along the beach".split())
    [0, 1, 1, 0, 0, 0, 0, 2]
    """
    numbers = [0] * len(words)
    for number, span in enumerate(named_things(words), start=1):
        places = range(span.first, span.last)
        says = [place for place in places if not is_function_word(words[place])]
        for place in says or places:
            numbers[place] = number
    return numbers


def phrase_forms(words: Sequence[str]) -> list[str]:
    """A noun phrase as it was said, without the function words it begins with, and its last word: as people type it.

    >>> phrase_forms(["a", "brown", "dog"])
    ['a brown dog', 'brown dog', 'dog']
    """
    first = next((place for place, word in enumerate(words) if not is_function_word(word)), 0)
    last = len(words) if is_function_word(words[-1]) else len(words) - 1
    return list(dict.fromkeys(" ".join(form) for form in (words, words[first:], words[last:]) if form))


def word_groups(words: Sequence[str]) -> list[Span]:
    """Groups from left to right, none over another; at least one of a sentence that has words.

    >>> [(each.first, each.last) for each in word_groups("a brown dog is running along the beach".split())]
    [(0, 3), (4, 5), (6, 8)]
    """
    says = [not is_function_word(word) for word in words]
    if not any(says):
        return [Span(place, place + 1) for place in range(len(words))]
    phrases = _noun_phrases(words)
    for span in phrases:
        says[span.first : span.last] = [False] * (span.last - span.first)
    starts = [place for place, said in enumerate(says) if said and (place == 0 or not says[place - 1])]
    others = [Span(start, next((k for k in range(start, len(says)) if not says[k]), len(says))) for start in starts]
    return sorted([*phrases, *others], key=lambda span: span.first)


def _noun_phrases(words: Sequence[str]) -> list[Span]:
    """Those that say something, each of one thing."""
    found = [part for span in noun_phrases(words) for part in _split(span, words)]
    return [span for span in found if not all(map(is_function_word, words[span.first : span.last]))]


def _split(span: Span, words: Sequence[str]) -> Iterator[Span]:
    """Parts of a phrase, each from an article on; what leads from one to the next ("of") is in none."""
    inner = [place for place in range(span.first + 1, span.last) if words[place] in _ARTICLES]
    for first, last in zip([span.first, *inner], [*inner, span.last], strict=True):
        end = last
        while last < span.last and end > first and is_function_word(words[end - 1]):
            end -= 1
        yield Span(first, end)
