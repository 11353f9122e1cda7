"""`smlstm annotate`: which sentences match a photo."""

import json
from pathlib import Path
from typing import Annotated

import typer

from smlstm.cli import app
from smlstm.cli.library_options import JsonOption, ModelOption, RuntimeOption, say_what_to_know
from smlstm.files import printable

_EXAMPLES = """\b
Examples:
  smlstm annotate holiday.jpg
  smlstm annotate holiday.jpg --sentences mine.txt --explain seen.html
"""


@app.command(epilog=_EXAMPLES)
def annotate(
    photos: Annotated[list[Path], typer.Argument(metavar="PHOTO...", help="Photos to name.")],
    *,
    sentences: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Sentences to choose from, one per line; else the shipped ones.")
    ] = None,
    k: Annotated[int, typer.Option("-k", "--top", min=1, help="How many sentences.")] = 5,
    explain: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write what the model looked at, as .html or .png.")
    ] = None,
    model: ModelOption = None,
    runtime: RuntimeOption = "auto",
    as_json: JsonOption = False,
) -> None:
    """Name photos: rank sentences by how well they match, the best first."""
    from smlstm.explain import explain as explain_pairs  # noqa: PLC0415 - torch takes seconds, and --help should not
    from smlstm.explain import write  # noqa: PLC0415
    from smlstm.explain.output import check_ending  # noqa: PLC0415
    from smlstm.matching import ImageFeatures  # noqa: PLC0415
    from smlstm.pair import load_model  # noqa: PLC0415
    from smlstm.search.naming import known_phrases, name_photo, read_sentences  # noqa: PLC0415
    from smlstm.vision.shown_photo import shown  # noqa: PLC0415

    if explain is not None:
        check_ending(explain)
    own = None if sentences is None else read_sentences(sentences)
    pair = load_model(model)
    choice = known_phrases(pair) if own is None else own
    say_what_to_know(pair, pair.unknown_words(own or ()), pair.read_as(own or ()))
    features = ImageFeatures.from_numpy(*pair.photo_reader(runtime).read(photos))
    named = [name_photo(pair, features.select(slice(each, each + 1)), choice)[:k] for each in range(len(photos))]
    if explain is not None:
        texts = [each.sentence for found in named for each in found]
        pairs = [
            (photo, photo * len(named[0]) + place) for photo in range(len(photos)) for place in range(len(named[0]))
        ]
        pictures, names = [shown(photo) for photo in photos], [photo.name for photo in photos]
        write(explain_pairs(pair.reranker, features, texts, pairs, names=names, photos=pictures), explain)
        typer.echo(f"written: {explain}", err=True)
    if as_json:
        content = [
            {"photo": str(photo), "sentences": [each.to_dict() for each in found]}
            for photo, found in zip(photos, named, strict=True)
        ]
        typer.echo(json.dumps(content, indent=2))
        return
    for photo, found in zip(photos, named, strict=True):
        if len(photos) > 1:
            typer.echo(printable(photo))
        for each in found:
            typer.echo(f"{each.probability:7.1%}  {each.sentence}")
