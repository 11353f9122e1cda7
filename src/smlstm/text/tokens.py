"""The tokeniser: a sentence to its words.

The paper only says that it "tokenizes and splits the sentence into words". Ours: Unicode-normalised (NFKC),
lower case, a word is a run of letters and marks with inner apostrophes ("don't", "l'eau"), or a run of digits;
punctuation separates and is dropped.
"""

import re
import unicodedata
from functools import cache

# Three characters that people type for an apostrophe, and three invisible ones that split no word.
_CLEANED = str.maketrans({"\u2019": "'", "\u02bc": "'", "\u2018": "'", "\u00ad": None, "\u2060": None, "\ufeff": None})
_ASCII_WORD = re.compile(r"[a-z]+(?:'[a-z]+)*|[0-9]+")


def tokenise(sentence: str) -> list[str]:
    """Split a sentence into lower-case words and numbers; never fails on any string.

    >>> tokenise("Two dogs don't run, 3 DO!")
    ['two', 'dogs', "don't", 'run', '3', 'do']
    """
    if sentence.isascii():
        return _ASCII_WORD.findall(sentence.lower())
    # What splits no word goes first: it would part marks that then come together.
    lowered = unicodedata.normalize("NFKC", _with_few_marks(sentence.translate(_CLEANED))).translate(_CLEANED).lower()
    # Lower case may undo the normal form; a word must have one spelling.
    return _unicode_word().findall(_with_few_marks(unicodedata.normalize("NFKC", lowered).translate(_CLEANED)))


def _with_few_marks(text: str) -> str:
    """Drop marks beyond the 30th on one letter, as no language has them: to put n in order takes n squared time.

    30 is what Unicode's Stream-Safe Text Format (UAX 15) allows.
    """
    return _many_marks().sub(r"\1", text)


@cache
def _many_marks() -> re.Pattern[str]:
    # The two sound marks of halfwidth katakana are letters to Unicode until they are normalised.
    return re.compile(rf"([{_marks()}\uff9e\uff9f]{{30}})[{_marks()}\uff9e\uff9f]+")


@cache
def _unicode_word() -> re.Pattern[str]:
    """Build the pattern of a word in any script, on first need: it takes a moment.

    Marks (accents that NFKC could not compose, vowel signs of Indic, Arabic or Hebrew) are not \\w in Python's re:
    without them such words would fall to pieces. Joiners (U+200C, U+200D) count only inside a word.
    """
    letter = rf"[^\W\d_](?:[{_marks()}]|[\u200c\u200d](?=[^\W\d_]))*"
    return re.compile(rf"(?:{letter})+(?:'(?:{letter})+)*|\d+")


@cache
def _marks() -> str:
    """All marks, as ranges of a pattern's set."""
    marks = [
        code
        for code in (*range(0x300, 0x20000), *range(0xE0100, 0xE01F0))
        if unicodedata.category(chr(code)) in ("Mn", "Mc", "Me")
    ]
    starts = [code for code in marks if unicodedata.category(chr(code - 1)) not in ("Mn", "Mc", "Me")]
    ends = [code for code in marks if unicodedata.category(chr(code + 1)) not in ("Mn", "Mc", "Me")]
    return "".join(f"{chr(start)}-{chr(end)}" for start, end in zip(starts, ends, strict=True))
