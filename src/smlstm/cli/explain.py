"""`smlstm explain`: what the model looked at in a photo and a sentence."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Annotated

import typer

from smlstm.cli import app
from smlstm.cli.dataset_options import given_options, refuse_beside
from smlstm.cli.explain_dataset import DatasetPairs, explain_averages, explain_pairs
from smlstm.errors import InputError

if TYPE_CHECKING:
    from smlstm.explain import Explanation
    from smlstm.matching.matcher import Matcher
    from smlstm.vision.backbones import Backbone


@app.command()
def explain(
    context: typer.Context,
    what: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[PHOTO... SENTENCE...]", help="Photos and sentences: every photo is explained with every sentence."
        ),
    ] = None,
    *,
    model: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="A saved model or pair, if not the shipped one.")
    ] = None,
    compare: Annotated[
        Path | None, typer.Option(help="A second model, shown beside the first, such as one without context.")
    ] = None,
    data: Annotated[Path | None, typer.Option(help="Instead of photos and sentences: pairs of a dataset.")] = None,
    split: Annotated[str, typer.Option(help="Of --data: train, dev or test.")] = "dev",
    split_scheme: Annotated[
        str | None, typer.Option(help="Of --data: which published splits: official, kiros or karpathy.")
    ] = None,
    features: Annotated[
        Path | None, typer.Option(help="Of --data: a feature store; photos that it lacks are added.")
    ] = None,
    captions: Annotated[
        Path | None, typer.Option(help="The dataset of the captions, where --data is a feature store.")
    ] = None,
    pairs: Annotated[int, typer.Option(min=1, help="Of --data: this many photos, spread over the split.")] = 12,
    average: Annotated[
        bool, typer.Option("--average", help="Of --data: where the model looks on average over the whole split.")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="The picture (.png) or page (.html) to write.")] = None,
    grid: Annotated[
        int | None, typer.Option(min=1, help="Side of the square of regions, if not the one the model was trained on.")
    ] = None,
    weights: Annotated[Path | None, typer.Option(help="The backbone's weights, if not found by themselves.")] = None,
    runtime: Annotated[
        str,
        typer.Option(
            help="What runs the backbone: openvino, onnxruntime, torch or auto; openvino-int8 is faster, less exact."
        ),
    ] = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")] = False,
) -> None:
    """Show what the model looked at, step by step: which phrase it read, and where in the photo."""
    # Imported here, since torch takes seconds and --help should not.
    from smlstm.explain import explain_photos  # noqa: PLC0415 - torch takes seconds, --help should not
    from smlstm.explain.output import check_ending  # noqa: PLC0415
    from smlstm.pair import model_folder  # noqa: PLC0415

    model = model_folder(model)
    if out is not None:
        check_ending(out)
    if data is not None:
        if what:
            raise InputError(f"{what[0]!r} says nothing beside --data: leave one of them out")
        refuse_beside(context, "--data", ("weights", "runtime"))
        if average:
            refuse_beside(context, "--average", ("pairs",))
        models = [model, *([compare] if compare else [])]
        chosen = DatasetPairs(models, data, split, features, grid, captions, split_scheme)
        explain_averages(chosen, out, as_json) if average else _tell(explain_pairs(chosen, pairs), out, as_json)
        return
    alone = given_options(context, ("average", "features", "captions", "split", "split_scheme", "pairs"))
    if alone:
        raise InputError(f"{alone[0]} goes with --data, the dataset of the pairs")
    photos, sentences = sort_out(what or [])
    by_model = {}
    for folder in (model, *([compare] if compare else [])):
        matcher, backbone = _load(folder, grid, weights)
        by_model[_name(folder, model, compare)] = explain_photos(
            matcher, photos, sentences, backbone=backbone, runtime=runtime
        )
    _tell(by_model, out, as_json)


def _tell(by_model: "Mapping[str, Sequence[Explanation]]", out: Path | None, as_json: bool) -> None:
    """Write and print what each model looked at."""
    from smlstm.explain import write, write_comparison  # noqa: PLC0415 - torch takes seconds, --help should not

    first, *others = by_model.values()
    for name, found in by_model.items():
        _tell_notes(f"{name}: " if others else "", found)
    if out is not None:
        write_comparison(by_model, out) if others else write(first, out)
    if as_json:
        content = {name: [each.to_dict() for each in found] for name, found in by_model.items()}
        models = [{"model": name, "pairs": pairs} for name, pairs in content.items()]
        typer.echo(json.dumps({"models": models, "out": None if out is None else str(out)}, indent=2))
        return
    for name, found in by_model.items():
        if others:
            typer.echo(f"model {name}")
        for explanation in found:
            typer.echo(as_text(explanation))
    typer.echo(f"written: {out}" if out else "--out FILE.png or FILE.html shows it on the photo", err=True)


def _tell_notes(before: str, found: "Sequence[Explanation]") -> None:
    """Say what a reader must know, once a sentence."""
    from smlstm.explain.picture import notes  # noqa: PLC0415 - torch takes seconds, --help should not

    for each in {explanation.sentence: explanation for explanation in found}.values():
        for note in notes(each):
            typer.echo(f"{before}“{shorten(each.sentence, 60, placeholder='…')}”: {note}", err=True)


def sort_out(what: Sequence[str]) -> tuple[list[Path], list[str]]:
    """Tell photos from sentences: a photo is a file, or named like one."""
    from smlstm.data.photos import SUFFIXES  # noqa: PLC0415 - torch takes seconds, --help should not

    photos, sentences = [], []
    for each in what:
        if Path(each).suffix.lower() in SUFFIXES or _is_file(each):
            photos.append(Path(each))
        else:
            sentences.append(each)
    if not photos:
        among = f" among {', '.join(map(repr, what))}" if what else ""
        raise InputError(f"there is no photo{among}: give a file and a sentence, or a dataset with --data")
    if not sentences:
        raise InputError('there is no sentence: write one in quotes behind the photo, such as "a dog on a beach"')
    return photos, sentences


def _is_file(name: str) -> bool:
    try:
        return Path(name).is_file()
    except (OSError, ValueError):  # longer than the file system's names, or not a name at all
        return False


def _name(folder: Path, *all_folders: Path | None) -> str:
    """The shortest end of a folder's path that tells it from the others."""
    parts = folder.resolve().parts
    others = [other.resolve().parts for other in all_folders if other is not None and other != folder]
    for count in range(1, len(parts)):
        if all(other[-count:] != parts[-count:] for other in others):
            return "/".join(parts[-count:])
    return str(folder)


def _load(folder: Path, grid: int | None, weights: Path | None) -> "tuple[Matcher, Backbone]":
    """Read a model and its backbone, and say what a user should know of them."""
    from smlstm.evaluation.models import load_matcher  # noqa: PLC0415 - torch takes seconds, --help should not
    from smlstm.vision.backbones import has_fixed_grid  # noqa: PLC0415
    from smlstm.vision.photo_features import load_backbone_for  # noqa: PLC0415

    matcher = load_matcher(folder)
    _refuse_blind(matcher, folder)
    backbone = load_backbone_for(matcher.config, matcher.tuned, grid=grid, weights=weights)
    if grid is None and matcher.config.regions is None and not has_fixed_grid(backbone.name):
        side = round(backbone.regions**0.5)
        typer.echo(
            f"{folder}: the model does not say on which grid it was trained; taking {side} x {side} (--grid chooses)",
            err=True,
        )
    return matcher, backbone


def _refuse_blind(matcher: "Matcher", folder: Path) -> None:
    if not matcher.attends:
        raise InputError(f"{folder} has no attention ({matcher.kind}): it cannot show what it looked at")


def as_text(explanation: "Explanation") -> str:
    """A pair for the terminal."""
    from smlstm.explain.places import place  # noqa: PLC0415 - torch takes seconds, --help should not

    lines = [f'{explanation.name}  "{explanation.sentence}"  score {explanation.scores[-1]:.3f}']
    for step in range(explanation.steps):
        phrase, where = explanation.phrase(step), explanation.place(step)
        lines.append(
            f"  step {step + 1}  score {explanation.scores[step]:7.3f}  photo: {where:<16}  "
            f"phrase: {phrase.text} {phrase.share:.0%}"
        )
    words = [f"{explanation.words[word]}: {place(grid)}" for word, grid in explanation.mapped_words]
    if words:
        lines.append(f"  words   {', '.join(words)}")
    lines.append(f"  {explanation.parts.describe()}")
    return "\n".join(lines)
