"""`smlstm evaluate --attention`: is the attention right?"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.table import Table

from smlstm.cli.dataset_options import announce, extraction_bar, photo_bar

if TYPE_CHECKING:
    from smlstm.data import Dataset
    from smlstm.evaluation.attention_run import AttentionGallery, AttentionResult
    from smlstm.evaluation.intervals import Interval
    from smlstm.evaluation.models import Candidate
    from smlstm.evaluation.phrases import PhrasePointing


def measure_and_print(
    candidates: "list[Candidate]",
    dataset: "Dataset",
    split: str,
    *,
    images: int | None,
    features: Path | None,
    grid: int | None,
    as_json: bool,
    phrases: Path | None = None,
) -> None:
    """Check, extract what is missing, measure, print."""
    from smlstm.evaluation.attention_run import (  # noqa: PLC0415 - torch takes seconds, --help should not
        measure_attention,
        read_attention_gallery,
        refuse_blind,
    )
    from smlstm.evaluation.evaluate import complete  # noqa: PLC0415 - torch takes seconds, --help should not
    from smlstm.evaluation.feature_plan import plan_features  # noqa: PLC0415

    if phrases is not None:
        measure_phrases_and_print(
            candidates, dataset, split, phrases, images=images, features=features, grid=grid, as_json=as_json
        )
        return
    refuse_blind(candidates)
    chosen = read_attention_gallery(dataset, split, images)
    plans = plan_features(candidates, dataset, chosen.records, features=features, grid=grid)
    announce(chosen.notes, plans)
    found = measure_attention(candidates, complete(plans, extraction_bar), chosen, photo_bar)
    print_attention(chosen, list(found), as_json)


def measure_phrases_and_print(
    candidates: "list[Candidate]",
    dataset: "Dataset",
    split: str,
    phrases: Path,
    *,
    images: int | None,
    features: Path | None,
    grid: int | None,
    as_json: bool,
) -> None:
    """The pointing game on phrases whose boxes people have drawn."""
    from smlstm.data.entities import Entities  # noqa: PLC0415 - torch takes seconds, --help should not
    from smlstm.evaluation.attention_run import (  # noqa: PLC0415
        measure_on_phrases,
        read_phrase_gallery,
        refuse_pointless,
    )
    from smlstm.evaluation.evaluate import complete  # noqa: PLC0415
    from smlstm.evaluation.feature_plan import plan_features  # noqa: PLC0415

    refuse_pointless(candidates)
    gallery = read_phrase_gallery(dataset, split, Entities(phrases), images)
    plans = plan_features(candidates, dataset, gallery.records, features=features, grid=grid)
    announce(gallery.notes, plans)
    found = dict(measure_on_phrases(candidates, complete(plans, extraction_bar), gallery, photo_bar))
    if as_json:
        results = [{"model": name, **each.to_dict()} for name, each in found.items()]
        typer.echo(json.dumps({"data": gallery.data, "split": split, "results": results}, indent=2))
        return
    first = next(iter(found.values()))
    typer.echo(
        f"{gallery.data} {split}: {first.phrases} phrases with boxes, {first.photos} photos; "
        f"chance {first.chance:.1%}, the photo's centre {first.centre:.1%}"
    )
    console = Console(width=None if sys.stdout.isatty() else 200)
    console.print(_phrase_table(found))
    for title, rows in (("kind of phrase", "by_kind"), ("size of its boxes", "by_size")):
        console.print(_phrase_parts(found, title, rows))
    for name, each in found.items():
        if each.captions_covered is not None:
            typer.echo(f"{name}: some step names and points at {each.captions_covered:.1%} of a caption's phrases")


def _phrase_table(found: "dict[str, PhrasePointing]") -> Table:
    table = Table(box=None, pad_edge=False)
    for column in ("model", "map"):
        table.add_column(column, no_wrap=True)
    for column in ("hits", "95% interval", "inside", "95% interval", "box found", "95% interval"):
        table.add_column(column, justify="right", no_wrap=True)
    for name, each in found.items():
        for row, kind in enumerate(each.maps):
            cells = [cell for part in (kind.hits, kind.inside, kind.found) for cell in _shares(part)]
            table.add_row(name if row == 0 else "", kind.name, *cells)
    return table


def _shares(part: "Interval | None") -> tuple[str, str]:
    return ("", "") if part is None else (f"{part.value:.1%}", f"{part.low:.1%} to {part.high:.1%}")


def _phrase_parts(found: "dict[str, PhrasePointing]", title: str, rows: str) -> Table:
    """Hits of each model's first map, part by part."""
    table = Table(box=None, pad_edge=False)
    table.add_column(title, no_wrap=True)
    for name, each in found.items():
        table.add_column(f"{name}, {each.maps[0].name}", justify="right")
    names = list(dict.fromkeys(part for each in found.values() for part in getattr(each.maps[0], rows)))
    for part in names:
        table.add_row(part, *(f"{getattr(each.maps[0], rows).get(part, 0):.1%}" for each in found.values()))
    return table


def print_attention(chosen: "AttentionGallery", found: "Sequence[AttentionResult]", as_json: bool) -> None:
    """Deletion and insertion against chance; the pointing game beside its baselines, where it was played."""
    gallery = chosen.gallery
    if as_json:
        content = {
            "data": gallery.data,
            "split": gallery.split,
            "images": len(gallery.keys),
            "fingerprint": gallery.fingerprint,
            "results": [each.to_dict() for each in found],
        }
        typer.echo(json.dumps(content, indent=2))
        return
    console = Console(width=None if sys.stdout.isatty() else 200)
    typer.echo(f"{gallery.data} {gallery.split}: {len(gallery.keys)} photos, each with its first caption")
    typer.echo("regions removed, or put back, by saliency rather than at random: above 0, attention finds what matters")
    console.print(_removal(found))
    if any(each.pointing for each in found):
        typer.echo(
            "pointing game, all captions: is the strongest region on the object that a step's strongest words name?"
        )
        console.print(_pointing(found))


def _removal(found: "Sequence[AttentionResult]") -> Table:
    table = Table(box=None, pad_edge=False)
    for column in ("model", "filler"):
        table.add_column(column, no_wrap=True)
    for column in ("deletion", "95% interval", "of all", "insertion", "95% interval", "of all"):
        table.add_column(column, justify="right", no_wrap=True)
    for each in found:
        for row, removal in enumerate(each.removal):
            cells = []
            for curve in (removal.deletion, removal.insertion):
                share = "-" if curve.relative is None else f"{curve.relative:.0%}"
                cells += [f"{curve.difference.value:+.4f}", _interval(curve.difference, "+.4f"), share]
            table.add_row("" if row else each.model, removal.filler, *cells)
    return table


def _pointing(found: "Sequence[AttentionResult]") -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("model", no_wrap=True)
    table.add_column("what", no_wrap=True)
    for column in ("model's", "95% interval", "chance", "centre", "any object", "by step", "steps that name"):
        table.add_column(column, justify="right", no_wrap=True)
    for each in found:
        game = each.pointing
        if game is None:
            continue
        by_step = " ".join("-" if hits is None else f"{hits:.2f}" for hits in game.hits_by_step[:6])
        fixed = (f"{game.chance:.3f}", f"{game.centre:.3f}", f"{game.any_object:.3f}")
        table.add_row(
            each.model, "hits", f"{game.hits.value:.3f}", _interval(game.hits, ".3f"), *fixed, by_step,
            f"{game.naming:.0%}",
        )  # fmt: skip
        inside = (f"{game.inside.value:.3f}", _interval(game.inside, ".3f"))
        table.add_row("", "saliency inside", *inside, f"{game.chance:.3f}", f"{game.centre_inside:.3f}")
    return table


def _interval(interval: "Interval", form: str) -> str:
    return f"{interval.low:{form}} to {interval.high:{form}}"
