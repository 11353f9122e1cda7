"""The tokeniser: a sentence to its words.

The paper only says that it "tokenizes and splits the sentence into words". Ours: Unicode-normalised (NFKC),
lower case, a word is a run of letters and marks with inner apostrophes ("don't", "l'eau"), or a run of digits;
punctuation separates and is dropped.
"""

import re
import unicodedata

_APOSTROPHES = str.maketrans({"\u2019": "'", "\u02bc": "'", "\u2018": "'"})
# Marks (accents that NFKC could not compose, Indic vowel signs) are not \w in Python's re, so letters are
# matched as "anything that is neither separator nor punctuation" through \w plus the combining ranges.
_LETTER = r"[^\W\d_][\u0300-\u036f\u0900-\u0dff\u0e31-\u0e4e\u200c\u200d]*"
_WORD = re.compile(rf"(?:{_LETTER})+(?:'(?:{_LETTER})+)*|\d+")


def tokenise(sentence: str) -> list[str]:
    """Split a sentence into lower-case words and numbers; never fails on any string.

    >>> tokenise("Two dogs don't run, 3 DO!")
    ['two', 'dogs', "don't", 'run', '3', 'do']
    """
    text = unicodedata.normalize("NFKC", sentence).translate(_APOSTROPHES).lower()
    return _WORD.findall(text)
