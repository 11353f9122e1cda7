"""Explanations as pages: one HTML file each, pictures inside it, nothing fetched, no scripts."""

from base64 import b64encode
from collections.abc import Mapping, Sequence
from functools import cache
from io import BytesIO
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from PIL import Image

from smlstm.errors import InputError
from smlstm.explain.average import AveragedMaps
from smlstm.explain.blocks import TIMES, at_limit, score_line
from smlstm.explain.explanation import Explanation
from smlstm.explain.maps import colour_map, legend, multiply, overlay
from smlstm.explain.picture import (
    AVERAGE_LEAD,
    MOST,
    UNITS,
    WORDS_TITLE,
    aligned,
    limit_of,
    notes,
    pair_notes,
    panel,
)
from smlstm.explain.places import describe_word

SHOWN_WIDTH = 400
LEAD = (
    "The model judges how well a photo and a sentence match in a few steps. At each step it reads some words of the "
    "sentence, looks at some places of the photo, and then adjusts its score. In the upper picture of a step, light "
    "yellow is what it looked at most and dark violet what it hardly looked at; the white outline holds half of its "
    "attention. The lower picture is the photo, left bright only where the model looked. Under each word stands a "
    "bar as high as the attention it got; the phrase that the step read most is framed."
)
POINT = "Point at a word, or go to it with the Tab key, to see where it is."


def gallery_page(explanations: Sequence[Explanation], title: str = "What the model looked at") -> str:
    """Pairs below each other."""
    if not explanations:
        raise InputError("there is nothing to show: no pair was given")
    pairs = [{**_pair({"": each}, notes(each)), "compared": False} for each in explanations]
    return render("explain/pairs.html.j2", title=title, lead=LEAD, pairs=pairs)


def comparison_page(
    explanations: Mapping[str, Sequence[Explanation]], title: str = "The same pairs, different models"
) -> str:
    """The same pairs as several matchers see them."""
    pairs = [{**_pair(pair, pair_notes(pair)), "compared": True} for pair in aligned(explanations)]
    return render("explain/pairs.html.j2", title=title, lead=LEAD, pairs=pairs)


def averages_page(maps: Sequence[AveragedMaps], title: str = "Where the model looks on average") -> str:
    """Averaged maps, a row a matcher."""
    return render("explain/averages.html.j2", title=title, lead=AVERAGE_LEAD, maps=[_averages(each) for each in maps])


def render(template: str, **values: Any) -> str:
    """A page of a template, named by its path in the package; what it is given is text and never markup."""
    return _templates().get_template(template).render(**values)


@cache
def _templates() -> Environment:
    templates = Environment(
        loader=PackageLoader("smlstm", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    templates.filters["base64"] = lambda data: b64encode(data).decode()
    return templates


def _averages(maps: AveragedMaps) -> dict[str, Any]:
    limit = max(2.0, float(maps.even_shares.max()))
    steps = []
    for number, (grid, share) in enumerate(zip(maps.even_shares, maps.central_shares, strict=True), start=1):
        told = f"Averaged map of step {number}: {share:.0%} of the attention is in the central quarter of the photo."
        steps.append({"picture": _image(colour_map(grid, (300, 300), limit), told), "share": f"{share:.0%}"})
    name = f"{maps.name}, {maps.pairs} pairs" if maps.name else f"{maps.pairs} pairs"
    return {"name": name, "steps": steps, "scale": _scale(limit)}


def _pair(seen: Mapping[str, Explanation], remarks: Sequence[str]) -> dict[str, Any]:
    """A pair as one or more matchers, by their names, see it."""
    limit = limit_of(list(seen.values()))
    first = next(iter(seen.values()))
    photo = {
        "name": first.name,
        "picture": _image(panel(first, SHOWN_WIDTH), f"The photo: {first.name}"),
        "scale": _scale(limit, limit == MOST),
        "line": _line(first),
    }
    sides = [
        {
            "name": name,
            "score": f"{each.scores[-1]:.3f}",
            "parts": each.parts.describe(),
            "where": _where(each, limit),
            "steps": [_step(each, step, limit) for step in range(each.steps)],
        }
        for name, each in seen.items()
    ]
    return {"sentence": first.sentence, "notes": remarks, "photo": photo, "sides": sides}


def _where(explanation: Explanation, limit: float) -> dict[str, Any] | None:
    """The photo, and for each word what to lay over it; None of a matcher that has no maps for words."""
    maps = dict(explanation.mapped_words)
    if not maps:
        return None
    photo = panel(explanation, SHOWN_WIDTH)
    words = [
        {
            "text": text,
            "shown": _image(overlay(photo, maps[number] * maps[number].size, limit), describe_word(text, maps[number]))
            if number in maps
            else None,
        }
        for number, text in enumerate(explanation.words)
    ]
    name = f"The photo: {explanation.name}"
    return {"title": WORDS_TITLE, "picture": _image(photo, name), "words": words, "point": POINT}


def _step(explanation: Explanation, step: int, limit: float) -> dict[str, Any]:
    photo = panel(explanation, SHOWN_WIDTH)
    told = f"The photo, bright only where step {step + 1} looked."
    return {
        "coloured": _image(overlay(photo, explanation.even_shares[step], limit), explanation.describe(step)),
        "multiplied": _image(multiply(photo, explanation.regions[step]), told),
        "phrase": explanation.phrase(step).text,
        "place": explanation.place(step),
        "words": _words(explanation, step),
        "score": f"{explanation.scores[step]:.3f}",
    }


def _words(explanation: Explanation, step: int) -> list[dict[str, Any]]:
    """The sentence in runs: before the phrase, the phrase, behind it."""
    shares, phrase = explanation.word_saliency[step], explanation.phrase(step)
    strongest = max(float(shares.max()), 1e-12)
    words = [
        {"text": word, "quiet": quiet, "share": f"{share:.1%}", "height": f"{float(share) / strongest:.2f}"}
        for word, quiet, share in zip(explanation.words, explanation.quiet, shares, strict=True)
    ]
    return [
        {"words": words[: phrase.first], "share": None},
        {"words": words[phrase.first : phrase.last], "share": f"{phrase.share:.0%}"},
        {"words": words[phrase.last :], "share": None},
    ]


def _line(explanation: Explanation) -> dict[str, Any]:
    """The score after each step, as a drawing that takes the page's colours."""
    scores = [float(score) for score in explanation.scores]
    line = score_line(scores)
    by = 200 / max(len(scores) - 1, 1)
    marks = [
        {
            "x": f"{30 + number * by:.1f}",
            "y": f"{70 - height * 40:.1f}",
            "above": f"{61 - height * 40:.1f}",
            "label": label,
            "labelled": by >= 40 or number in (0, len(scores) - 1),
        }
        for number, (height, label) in enumerate(zip(line.heights, line.labels, strict=True))
    ]
    told = ", ".join(f"{score:.3f}" for score in scores)
    return {"told": told, "path": " ".join(f"{mark['x']},{mark['y']}" for mark in marks), "marks": marks}


def _scale(limit: float, capped: bool = False) -> dict[str, Any]:
    last = at_limit(limit, capped)
    return {
        "picture": _image(legend((256, 12)), f"Colours from violet (0) to yellow ({last} an even share)"),
        "middle": f"{100 / limit:.1f}%" if 1 / limit > 0.1 else "",
        "even": f"1{TIMES}",
        "last": last,
        "units": f"{UNITS} (1{TIMES})",
    }


def _image(picture: Image.Image, told: str) -> dict[str, Any]:
    file = BytesIO()
    picture.save(file, "JPEG", quality=88, subsampling=0)
    return {"width": picture.width, "height": picture.height, "told": told, "jpeg": file.getvalue()}
