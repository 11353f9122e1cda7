"""Which words of a sentence belong together: its noun phrases.

An averaged perceptron (Collins 2002) marks each word as the beginning of a phrase, the inside of one, or outside of
any, by the word, its neighbours, its ending and the mark before it. It was trained on the captions of Flickr8k's
training photos as Flickr30k Entities marks them: of the dev captions' phrases it finds 96.7 %, and 96.8 % of what it
finds are theirs, both ends exact. Its weights lie in `phrases.json.gz`, made by

    python -m smlstm.text.phrases SENTENCES-OF-TRAINING-PHOTOS... OUT
"""

import argparse
import gzip
import json
import random
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from smlstm.text.tokens import tokenise

FILE = Path(__file__).with_name("phrases.json.gz")
OUTSIDE, BEGIN, INSIDE = "O", "B", "I"
_MARKS = (OUTSIDE, BEGIN, INSIDE)
_MARKED = re.compile(r"\[/EN#(\d+)((?:/\w+)+) ([^\]]+)\]")


@dataclass(frozen=True)
class Span:
    """A phrase: the words from `first` to before `last`."""

    first: int
    last: int


def noun_phrases(words: Sequence[str]) -> list[Span]:
    """The phrases of a sentence that is given as words, from left to right.

    >>> [(each.first, each.last) for each in noun_phrases("a brown dog runs along the beach".split())]
    [(0, 3), (5, 7)]
    """
    return spans(marks_of(words, _weights()))


def spans(marks: Sequence[str]) -> list[Span]:
    """Phrases from marks; an inside without a beginning begins one."""
    found: list[Span] = []
    start: int | None = None
    for place, mark in enumerate([*marks, OUTSIDE]):
        if start is not None and mark != INSIDE:
            found.append(Span(start, place))
            start = None
        if mark == BEGIN or (mark == INSIDE and start is None):
            start = place
    return found


Weights = dict[str, dict[str, float]]


def marks_of(words: Sequence[str], weights: Weights) -> list[str]:
    """The best mark of each word, given the one before it."""
    marks: list[str] = []
    for place in range(len(words)):
        before = marks[-1] if marks else OUTSIDE
        scores = dict.fromkeys(_MARKS, 0.0)
        for feature in _features(words, place, before):
            for mark, weight in weights.get(feature, {}).items():
                scores[mark] += weight
        marks.append(max(_MARKS, key=scores.__getitem__))
    return marks


def _features(words: Sequence[str], place: int, before: str) -> Iterator[str]:
    word = words[place]
    left = words[place - 1] if place else "<"
    right = words[place + 1] if place + 1 < len(words) else ">"
    yield "bias"
    yield f"w {word}"
    yield f"l {left}"
    yield f"r {right}"
    yield f"e {word[-3:]}"
    yield f"el {left[-3:]} {word[-3:]}"
    yield f"b {before}"
    yield f"bw {before} {word}"
    yield f"be {before} {word[-2:]}"
    yield f"ber {before} {word[-2:]} {right[-2:]}"


@cache
def _weights() -> Weights:
    with gzip.open(FILE, "rt", encoding="utf-8") as file:
        packed: dict[str, list[int]] = json.load(file)
    return {feature: dict(zip(_MARKS, map(float, numbers), strict=True)) for feature, numbers in packed.items()}


@dataclass(frozen=True)
class Marked:
    """A phrase as Flickr30k Entities marks it: `[/EN#entity/kind/kind text]`."""

    entity: str
    kinds: tuple[str, ...]
    text: str
    span: Span


def find_marked(line: str) -> tuple[str, list[Marked]]:
    """A caption without its marks, and its phrases that have words."""
    plain, end = "", 0
    found: list[Marked] = []
    for match in _MARKED.finditer(line):
        entity, kinds, text = match.groups()
        plain += line[end : match.start()]
        first = len(tokenise(plain))
        plain += text
        end = match.end()
        span = Span(first, len(tokenise(plain)))
        if span.last > span.first:
            found.append(Marked(entity, tuple(kinds[1:].split("/")), text, span))
    return (plain + line[end:]).strip(), found


def read_marked(line: str) -> tuple[list[str], list[str]]:
    """Words and marks of a caption as Flickr30k Entities writes it."""
    plain, phrases = find_marked(line)
    words = tokenise(plain)
    marks = [OUTSIDE] * len(words)
    for each in phrases:
        marks[each.span.first : each.span.last] = [BEGIN] + [INSIDE] * (each.span.last - each.span.first - 1)
    return words, marks


def learn(sentences: Sequence[tuple[Sequence[str], Sequence[str]]], epochs: int = 5, seed: int = 0) -> Weights:
    """Weights from marked sentences, averaged over all steps."""
    weights: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    totals: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    order, step = list(sentences), 0
    draws = random.Random(seed)
    for _ in range(epochs):
        draws.shuffle(order)
        for words, marks in order:
            before = OUTSIDE
            for place, right in enumerate(marks):
                step += 1
                features = list(_features(words, place, before))
                scores = dict.fromkeys(_MARKS, 0.0)
                for feature in features:
                    if feature in weights:
                        for mark, weight in weights[feature].items():
                            scores[mark] += weight
                guess = max(_MARKS, key=scores.__getitem__)
                if guess != right:
                    for feature in features:
                        for mark, change in ((right, 1.0), (guess, -1.0)):
                            weights[feature][mark] += change
                            totals[feature][mark] += step * change
                before = guess
    return {
        feature: {mark: weight - totals[feature][mark] / step for mark, weight in found.items()}
        for feature, found in weights.items()
    }


def pack(weights: Weights, smallest: int = 3) -> dict[str, list[int]]:
    """Weights in thousandths of the largest, as whole numbers; features that hardly count are left out."""
    largest = max(abs(weight) for found in weights.values() for weight in found.values())
    packed = {
        feature: [round(1000 * found.get(mark, 0.0) / largest) for mark in _MARKS] for feature, found in weights.items()
    }
    return {feature: numbers for feature, numbers in sorted(packed.items()) if max(map(abs, numbers)) >= smallest}


def _main() -> None:
    parser = argparse.ArgumentParser(description="learn which words of a caption belong together")
    parser.add_argument("sentences", nargs="+", type=Path, help="files of Flickr30k Entities' folder Sentences")
    parser.add_argument("out", type=Path)
    given = parser.parse_args()
    lines = [line for file in given.sentences for line in file.read_text(encoding="utf-8").splitlines()]
    content = json.dumps(pack(learn([read_marked(line) for line in lines if line.strip()])), separators=(",", ":"))
    given.out.write_bytes(gzip.compress(content.encode(), 9, mtime=0))


if __name__ == "__main__":
    _main()
