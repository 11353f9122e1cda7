"""Explanations as pages: one HTML file each, pictures inside it, nothing fetched, no scripts."""

import html
from base64 import b64encode
from collections.abc import Mapping, Sequence
from io import BytesIO

from PIL import Image

from smlstm.errors import InputError
from smlstm.explain.average import AveragedMaps
from smlstm.explain.blocks import TIMES, at_limit, score_line
from smlstm.explain.explanation import Explanation
from smlstm.explain.maps import colour_map, legend, multiply, overlay
from smlstm.explain.picture import AVERAGE_LEAD, MOST, UNITS, aligned, colour_limit, notes, pair_notes, panel

SHOWN_WIDTH = 400
LEAD = (
    "The model judges how well a photo and a sentence match in a few steps. At each step it looks at one part of the "
    "photo and at some words of the sentence, and then adjusts its score. In the upper picture of a step, light yellow "
    "is what it looked at most and dark violet what it hardly looked at; the white outline holds half of its "
    "attention. The lower picture is the photo, left bright only where the model looked. Under each word stands a "
    "bar as high as the attention it got; the two words looked at most are framed."
)


def gallery_page(explanations: Sequence[Explanation], title: str = "What the model looked at") -> str:
    """Pairs below each other."""
    if not explanations:
        raise InputError("there is nothing to show: no pair was given")
    return _page(title, LEAD, "".join(_pair(each) for each in explanations))


def comparison_page(
    explanations: Mapping[str, Sequence[Explanation]], title: str = "The same pairs, different models"
) -> str:
    """The same pairs as several matchers see them."""
    sections = []
    for pair in aligned(explanations):
        limit = colour_limit([each.even_shares for each in pair.values()])
        first = next(iter(pair.values()))
        sides = "".join(
            f"<h3>{html.escape(name)}: score {each.scores[-1]:.3f}</h3>"
            f'<div class="row">{"".join(_step(each, step, limit) for step in range(each.steps))}</div>'
            for name, each in pair.items()
        )
        sections.append(
            f"<section><h2>“{html.escape(first.sentence)}”</h2>{_remarks(pair_notes(pair))}"
            f'<div class="row">{_photo(first, limit)}'
            f'<div class="wide">{sides}</div></div></section>'
        )
    return _page(title, LEAD, "".join(sections))


def averages_page(maps: Sequence[AveragedMaps], title: str = "Where the model looks on average") -> str:
    """Averaged maps, a row a matcher."""
    sections = []
    for each in maps:
        shares = each.even_shares
        limit = max(2.0, float(shares.max()))
        figures = "".join(
            _average(step, share, colour_map(grid, (300, 300), limit))
            for step, (grid, share) in enumerate(zip(shares, each.central_shares, strict=True))
        )
        name = html.escape(f"{each.name}, {each.pairs} pairs" if each.name else f"{each.pairs} pairs")
        sections.append(
            f'<section><h2>{name}</h2><div class="row">{figures}</div><div class="key">{_scale(limit)}</div></section>'
        )
    return _page(title, AVERAGE_LEAD, "".join(sections))


def _average(step: int, share: float, picture: Image.Image) -> str:
    told = f"Averaged map of step {step + 1}: {share:.0%} of the attention is in the central quarter of the photo."
    caption = f"<b>Step {step + 1}</b><br>{share:.0%} in the central quarter (even: 25%)"
    return f"<figure>{_image(picture, told)}<figcaption>{caption}</figcaption></figure>"


def _pair(explanation: Explanation) -> str:
    limit = colour_limit([explanation.even_shares])
    steps = "".join(_step(explanation, step, limit) for step in range(explanation.steps))
    return (
        f"<section><h2>“{html.escape(explanation.sentence)}”</h2>{_remarks(notes(explanation))}"
        f'<div class="row">{_photo(explanation, limit)}<div class="row wide">{steps}</div></div></section>'
    )


def _remarks(found: Sequence[str]) -> str:
    return "".join(f'<p class="note">{html.escape(note)}</p>' for note in found)


def _photo(explanation: Explanation, limit: float) -> str:
    name = html.escape(explanation.name)
    return (
        f"<figure>{_image(panel(explanation, SHOWN_WIDTH), f'The photo: {explanation.name}')}"
        f'<figcaption><b class="name">{name}</b>{_scale(limit, limit == MOST)}'
        f"<b>Score after each step</b>{_progress(explanation)}</figcaption></figure>"
    )


def _step(explanation: Explanation, step: int, limit: float) -> str:
    photo = panel(explanation, SHOWN_WIDTH)
    coloured = _image(overlay(photo, explanation.even_shares[step], limit), explanation.describe(step))
    multiplied = _image(
        multiply(photo, explanation.regions[step]), f"The photo, bright only where step {step + 1} looked."
    )
    return (
        f"<figure><b>Step {step + 1}</b>{coloured}{multiplied}"
        f"<figcaption>{_words(explanation, step)}<p>score {explanation.scores[step]:.3f}</p></figcaption></figure>"
    )


def _words(explanation: Explanation, step: int) -> str:
    shares, top = explanation.word_saliency[step], explanation.top_words(step)
    strongest = max(float(shares.max()), 1e-12)
    parts = []
    for place, (word, share) in enumerate(zip(explanation.words, shares, strict=True)):
        bar = f'<i style="height:{float(share) / strongest:.2f}em"></i>'
        shown, about = html.escape(word), f"{share:.1%} of the attention"
        if place in top:
            shown = f"<strong>{shown}</strong><small>{share:.0%}</small>"
        mark = ' class="top"' if place in top else ""
        parts.append(f'<span{mark} title="{about}">{shown}<span class="bar" aria-hidden="true">{bar}</span></span>')
    return f'<p class="words">{" ".join(parts)}</p>'


def _progress(explanation: Explanation) -> str:
    """The score after each step, as a drawing that takes the page's colours."""
    scores = [float(score) for score in explanation.scores]
    line = score_line(scores)
    by = 200 / max(len(scores) - 1, 1)
    points = [(30 + number * by, 70 - height * 40) for number, height in enumerate(line.heights)]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    few = by >= 40
    marks = "".join(
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4"/>'
        + (
            f'<text x="{x:.1f}" y="{y - 9:.1f}">{label}</text><text x="{x:.1f}" y="92">{number + 1}</text>'
            if few or number in (0, len(scores) - 1)
            else ""
        )
        for number, ((x, y), label) in enumerate(zip(points, line.labels, strict=True))
    )
    told = ", ".join(f"{score:.3f}" for score in scores)
    return (
        f'<svg viewBox="0 0 260 98" role="img" aria-label="Score after each step: {told}">'
        f'<polyline points="{path}"/>{marks}</svg>'
    )


def _scale(limit: float, capped: bool = False) -> str:
    bar = _image(legend((256, 12)), f"Colours from violet (0) to yellow ({at_limit(limit, capped)} an even share)")
    middle = f'<span style="left:{100 / limit:.1f}%">1{TIMES}</span>' if 1 / limit > 0.1 else ""
    return (
        f'<div class="scale">{bar}<div class="ticks"><span style="left:0">0</span>{middle}'
        f'<span style="left:100%">{at_limit(limit, capped)}</span></div><p>{UNITS} (1{TIMES})</p></div>'
    )


def _image(picture: Image.Image, told: str) -> str:
    file = BytesIO()
    picture.save(file, "JPEG", quality=88, subsampling=0)
    data = b64encode(file.getvalue()).decode()
    size = f'width="{picture.width}" height="{picture.height}"'
    return f'<img {size} alt="{html.escape(told)}" src="data:image/jpeg;base64,{data}">'


def _page(title: str, lead: str, body: str) -> str:
    return whole_page(title, _STYLE, f'<p class="lead">{html.escape(lead)}</p>{body}')


def whole_page(title: str, style: str, body: str) -> str:
    """A page that needs and may load nothing but itself."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; img-src data:; '
        "style-src 'unsafe-inline'\">"
        f"<title>{html.escape(title)}</title><style>{style}</style></head>"
        f"<body><main><h1>{html.escape(title)}</h1>{body}</main></body></html>\n"
    )


_STYLE = """
:root { color-scheme: light dark; --ink: #1a1a1a; --pale: #595959; --paper: #fff; --rule: #d2d2d2; --bar: #31688e }
@media (prefers-color-scheme: dark) {
  :root { --ink: #ececec; --pale: #b4b4b4; --paper: #16181b; --rule: #3c4046; --bar: #6fb1d8 } }
body { margin: 0; background: var(--paper); color: var(--ink); font: 16px/1.45 system-ui, sans-serif }
main { max-width: 84rem; margin: 0 auto; padding: 1.5rem }
h1 { font-size: 1.5rem } h2 { font-size: 1.2rem; margin: 0 0 .5rem } h3 { font-size: 1rem; margin: .5rem 0 }
.lead { max-width: 48rem } .note, .scale p { color: var(--pale); font-size: .875rem; margin: .25rem 0 }
section { border-top: 1px solid var(--rule); padding: 1.25rem 0 }
.row { display: flex; flex-wrap: wrap; gap: 1.25rem; align-items: flex-start } .wide { flex: 1 1 20rem; min-width: 0 }
.wide > figure { flex: 1 1 14rem; max-width: 17rem }
figure { margin: 0; width: 17rem; max-width: 100% } figure > img, .scale img { display: block; width: 100% }
figure > img { height: auto; margin-top: .375rem } .scale img { height: .75rem } .scale { margin: .625rem 0 }
.name { overflow-wrap: anywhere } .key { width: 17rem; max-width: 100% }
.ticks { position: relative; height: 1.375rem; font-size: .875rem }
.ticks span { position: absolute; transform: translateX(-50%); white-space: nowrap }
.ticks span:first-child { transform: none } .ticks span:last-child { transform: translateX(-100%) }
.words { margin: .625rem 0 .25rem; line-height: 1.3 }
.words > span { display: inline-block; padding: 0 .2rem; margin: 0 .05rem .25rem; vertical-align: bottom }
.words .top { outline: 2px solid var(--ink); border-radius: 2px } .words small { margin-left: .25rem }
.bar { display: flex; align-items: flex-end; height: 1em; border-bottom: 1px solid var(--rule) }
.bar i { display: block; width: 100%; background: var(--bar) }
svg { display: block; width: 100% } svg text { font-size: 12px; text-anchor: middle; fill: var(--ink) }
svg circle { fill: var(--bar) } svg polyline { fill: none; stroke: var(--bar); stroke-width: 2.5 }
@media print { section { break-inside: avoid } }
"""
