"""Explanations as pictures: one pair, a gallery, matchers beside each other, averaged maps."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from smlstm.errors import InputError
from smlstm.explain.average import AveragedMaps
from smlstm.explain.blocks import (
    PALE,
    SMALL,
    TITLE,
    across,
    down,
    framed,
    padded,
    progress,
    scale,
    text,
    weighted_words,
)
from smlstm.explain.explanation import Explanation
from smlstm.explain.maps import colour_map, multiply, overlay

PANEL = 300
WORD_PANEL = 140
STEPS_PER_ROW = 4
_TALLEST = 32_000
MOST = 4.0
"""The most even shares that colours tell apart where several maps share a scale."""
_COLOURS = "Light yellow: looked at much; dark violet: hardly. The white outline holds half of a step's attention."
LEAD = (
    "What the model read and looked at, step by step, to judge how well photo and sentence match. "
    f"{_COLOURS} Below: the photo times its attention, and the sentence with a bar for each word; the phrase that the "
    "step read most is framed."
)
COMPARISON_LEAD = (
    "The same pairs as different models see them, step by step; behind a model's name its score of the pair, below "
    f"each map the phrase that the step read most. {_COLOURS}"
)
WORDS_TITLE = "Where each word is"
UNITS = "Attention, as a multiple of what each place would have if all had the same"
AVERAGE_LEAD = (
    "Where the model looks on average at each step, all photos laid over each other. Light yellow: often looked at; "
    "dark violet: seldom."
)


def colour_limit(maps: Sequence[NDArray[np.float32]]) -> float:
    """Where the colours of maps that are shown together end, in even shares.

    At least 2, so that an almost even map looks even; at most `MOST`, so that one sharp map does not leave the
    others in the dark.
    """
    return min(MOST, max(2.0, *(float(each.max()) for each in maps)))


def picture_of(explanation: Explanation) -> Image.Image:
    """One pair: the photo, then a column a step."""
    limit = limit_of([explanation])
    heads = [_head(explanation, step) for step in range(explanation.steps)]
    tallest = max(head.height for head in heads)
    columns = [_step(explanation, step, limit, padded(head, tallest)) for step, head in enumerate(heads)]
    rows = [columns[start : start + STEPS_PER_ROW] for start in range(0, len(columns), STEPS_PER_ROW)]
    photo = down(
        [
            text(explanation.name, PANEL, bold=True),
            panel(explanation),
            scale(PANEL, limit, capped=limit == MOST),
            text(UNITS, PANEL, SMALL, colour=PALE),
            text("Score after each step", PANEL, SMALL, bold=True),
            progress(explanation.scores, PANEL),
            text(explanation.parts.describe(), PANEL, SMALL, colour=PALE),
        ]
    )
    steps = down([across(row) for row in rows], gap=24)
    body = across([photo, down([steps, *_words(explanation, limit, steps.width)], gap=24)], gap=28)
    width = max(body.width, 2 * PANEL)
    return down([text(f"“{explanation.sentence}”", width, TITLE, bold=True), *_notes(explanation, width), body], gap=12)


def limit_of(explanations: Sequence[Explanation]) -> float:
    """Where the colours of all maps of some explanations end, those of words too."""
    steps = [each.even_shares for each in explanations]
    return colour_limit([*steps, *(grid * grid.size for each in explanations for _, grid in each.mapped_words)])


def _words(explanation: Explanation, limit: float, width: int) -> list[Image.Image]:
    """A small map for each word that has one, under a title."""
    small = panel(explanation, WORD_PANEL)
    panels = [
        down([overlay(small, grid * grid.size, limit), text(explanation.words[word], WORD_PANEL, SMALL)], gap=4)
        for word, grid in explanation.mapped_words
    ]
    if not panels:
        return []
    most = max(1, (width + 12) // (WORD_PANEL + 12))
    lines = [across(panels[start : start + most], gap=12) for start in range(0, len(panels), most)]
    return [down([text(WORDS_TITLE, width, bold=True), *lines])]


def _head(explanation: Explanation, step: int) -> Image.Image:
    phrase = explanation.phrase(step)
    shares = f"{phrase.share:.0%} of the words · {explanation.place(step)}"
    return down([text(f"Step {step + 1}: {phrase.text}", PANEL, bold=True), text(shares, PANEL, SMALL, colour=PALE)])


def _step(explanation: Explanation, step: int, limit: float, head: Image.Image) -> Image.Image:
    photo, phrase = panel(explanation), explanation.phrase(step)
    return down(
        [
            head,
            overlay(photo, explanation.even_shares[step], limit),
            multiply(photo, explanation.regions[step]),
            weighted_words(
                explanation.words,
                explanation.word_saliency[step],
                range(phrase.first, phrase.last),
                explanation.quiet,
                PANEL,
            ),
        ]
    )


def _notes(explanation: Explanation, width: int) -> list[Image.Image]:
    return [text(note, width, SMALL, colour=PALE) for note in notes(explanation)]


def notes(explanation: Explanation) -> list[str]:
    """What a reader must know before trusting a picture."""
    found = [f"“{typed}” was read as “{meant}”." for typed, meant in explanation.read_as.items()]
    if explanation.unknown:
        found.append(f"Words that the model has not learned: {', '.join(explanation.unknown)}.")
    if explanation.dropped:
        found.append(f"The model read the first {len(explanation.words)} words; {explanation.dropped} were cut.")
    return found


def pair_notes(pair: Mapping[str, Explanation]) -> list[str]:
    """The same for one pair seen by several matchers; said once where they agree."""
    found = {name: notes(each) for name, each in pair.items()}
    first, *others = found.values()
    if all(other == first for other in others):
        return first
    return [f"{name}: {note}" for name, noted in found.items() for note in noted]


def panel(explanation: Explanation, width: int = PANEL) -> Image.Image:
    """The photo at the width of a column, no more than half as high again; grey paper if there is none."""
    photo = explanation.photo
    if photo is None:
        return Image.new("RGB", (width, width), "#d8d8d8")
    factor = min(width / photo.width, 1.5 * width / photo.height)
    size = (max(1, round(photo.width * factor)), max(1, round(photo.height * factor)))
    return photo.convert("RGB").resize(size, Image.Resampling.LANCZOS)


def gallery(explanations: Sequence[Explanation]) -> Image.Image:
    """Pairs below each other, under a sentence that says what is shown."""
    return _under(LEAD, (picture_of(each) for each in explanations))


def comparison(explanations: Mapping[str, Sequence[Explanation]]) -> Image.Image:
    """The same pairs as several matchers see them: a row a pair, the photo, then each matcher's steps."""
    rows = []
    for pair in aligned(explanations):
        limit = colour_limit([each.even_shares for each in pair.values()])
        first = next(iter(pair.values()))
        sides = [
            down([text(first.name, 200, SMALL, bold=True), panel(first, 200), scale(200, limit, capped=limit == MOST)])
        ]
        for name, each in pair.items():
            maps = [_small_step(each, step, limit) for step in range(each.steps)]
            lines = [across(maps[start : start + STEPS_PER_ROW], gap=8) for start in range(0, len(maps), STEPS_PER_ROW)]
            title = text(f"{name}: {each.scores[-1]:.2f}", max(line.width for line in lines), bold=True)
            sides.append(down([title, *lines]))
        body = across(sides, gap=32)
        remarks = [text(note, body.width, SMALL, colour=PALE) for note in pair_notes(pair)]
        rows.append(down([text(f"“{first.sentence}”", body.width, TITLE, bold=True), *remarks, body]))
    return _under(COMPARISON_LEAD, rows)


def _small_step(explanation: Explanation, step: int, limit: float) -> Image.Image:
    read = explanation.phrase(step).text
    return down([overlay(panel(explanation, 200), explanation.even_shares[step], limit), text(read, 200, SMALL)], gap=4)


def aligned(explanations: Mapping[str, Sequence[Explanation]]) -> list[dict[str, Explanation]]:
    """The explanations of each pair by matcher; lists of different pairs are refused."""
    lists = list(explanations.values())
    pairs = {tuple((each.name, each.sentence) for each in one) for one in lists}
    if len(pairs) != 1 or not lists[0]:
        raise InputError("models can be compared on the same pairs only, and on one at least")
    return [{name: one[k] for name, one in explanations.items()} for k in range(len(lists[0]))]


def averages(maps: Sequence[AveragedMaps], side: int = 500) -> Image.Image:
    """Averaged maps, a row a matcher; `side` is the paper's 500 pixels."""
    rows = []
    for each in maps:
        shares = each.even_shares
        limit = max(2.0, float(shares.max()))
        panels = [
            down(
                [
                    text(f"Step {step + 1}", side, bold=True),
                    colour_map(grid, (side, side), limit),
                    text(f"{each.central_shares[step]:.0%} in the central quarter (even: 25%)", side, SMALL),
                ]
            )
            for step, grid in enumerate(shares)
        ]
        title = f"{each.name}, {each.pairs} pairs" if each.name else f"{each.pairs} pairs"
        body = across(panels)
        key = down([scale(PANEL, limit), text(UNITS, body.width, SMALL, colour=PALE)], gap=4)
        rows.append(down([text(title, body.width, TITLE, bold=True), body, key], gap=12))
    return _under(AVERAGE_LEAD, rows)


def _under(lead: str, blocks: Iterable[Image.Image]) -> Image.Image:
    drawn: list[Image.Image] = []
    for block in blocks:
        drawn.append(block)
        if sum(each.height for each in drawn) > _TALLEST:
            raise InputError("these are too many pairs for one picture: write a page (.html) instead")
    if not drawn:
        raise InputError("there is nothing to show: no pair was given")
    width = max(block.width for block in drawn)
    rule = Image.new("RGB", (width, 2), "#d2d2d2")
    stacked = [part for block in drawn for part in (rule, block)]
    return framed(down([text(lead, width), *stacked], gap=24))
