"""Other forms of an English word: who knows "kayak" can make something of "kayaks", "kayaking" and "kayak's".

Only for words that are not known themselves. On Flickr8k dev, with known words made unknown, this wins back a quarter
to a half of what their loss costs; neighbours by GloVe won back less, and nothing sure on top (docs/experiments.md).
"""

from collections.abc import Container, Iterator

_SHORTEST = 3


def other_form(word: str, known: Container[str]) -> str | None:
    """A known word of which this one is likely to be another form."""
    for form in _forms(word):
        if len(form) >= _SHORTEST and form in known:
            return form
    return None


_MANY = {"man": "men", "woman": "women", "child": "children", "person": "people", "foot": "feet"}
_ONE = {many: one for one, many in _MANY.items()}


def one_or_many(noun: str) -> set[str]:
    """The words that name the same thing once or several times."""
    found = {noun, f"{noun}s", f"{noun}es", noun.removesuffix("s"), noun.removesuffix("es")}
    return found | {_MANY.get(noun, noun), _ONE.get(noun, noun)}


def _forms(word: str) -> Iterator[str]:
    stems = list(dict.fromkeys(_stems(word)))
    yield from stems
    for stem in [word, *stems]:
        yield from _endings(stem)


def _stems(word: str) -> Iterator[str]:
    """The word without an ending, in the spellings that it may have had."""
    for ending in ("'s", "s'", "'"):
        if word.endswith(ending):
            yield word.removesuffix(ending)
    if word.endswith("ies"):
        yield word[:-3] + "y"
    if word.endswith("es"):
        yield word[:-2]
    if word.endswith("s") and not word.endswith("ss"):
        yield word[:-1]
    for ending in ("ing", "ed", "er", "ers"):
        if word.endswith(ending):
            stem = word.removesuffix(ending)
            yield stem
            yield stem + "e"
            if len(stem) > _SHORTEST and stem[-1] == stem[-2]:
                yield stem[:-1]


def _endings(stem: str) -> Iterator[str]:
    """The word with an ending."""
    yield stem + "s"
    yield stem + "es"
    if stem.endswith("y"):
        yield stem[:-1] + "ies"
    short = stem[:-1] if stem.endswith("e") else stem
    yield short + "ing"
    yield short + "ed"
    yield stem + stem[-1:] + "ing"
