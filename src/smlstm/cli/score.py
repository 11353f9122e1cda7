"""`smlstm score`: how well photos and sentences match."""

import json
from typing import Annotated

import typer

from smlstm.cli import app
from smlstm.cli.explain import sort_out
from smlstm.cli.library_options import JsonOption, ModelOption, RuntimeOption, say_what_to_know
from smlstm.files import printable

_EXAMPLES = """\b
Examples:
  smlstm score dog.jpg "a dog on a beach"
  smlstm score *.jpg "a dog on a beach" "two people in a kitchen" --json
"""


@app.command(epilog=_EXAMPLES)
def score(
    what: Annotated[
        list[str],
        typer.Argument(metavar="PHOTO... SENTENCE...", help="Every photo is scored with every sentence."),
    ],
    *,
    model: ModelOption = None,
    runtime: RuntimeOption = "auto",
    as_json: JsonOption = False,
) -> None:
    """Print the match probability and the raw score of photos and sentences."""
    photos, sentences = sort_out(what)
    from smlstm.matching import ImageFeatures  # noqa: PLC0415 - torch takes seconds, --help should not
    from smlstm.pair import load_model  # noqa: PLC0415 - torch takes seconds, and --help should not
    from smlstm.search.naming import score_features  # noqa: PLC0415

    pair = load_model(model)
    pair.reranker.tokens(sentences)  # a sentence without words is refused before the long work
    say_what_to_know(pair, pair.unknown_words(sentences), pair.read_as(sentences))
    features = ImageFeatures.from_numpy(*pair.photo_reader(runtime).read(photos))
    scores = score_features(pair, features, sentences).tolist()
    rows = [
        {
            "photo": str(photo),
            "sentence": sentence,
            "probability": pair.calibration.probability(value, sentence),
            "score": value,
        }
        for photo, values in zip(photos, scores, strict=True)
        for sentence, value in zip(sentences, values, strict=True)
    ]
    if as_json:
        typer.echo(json.dumps(rows, indent=2))
        return
    for row in rows:
        typer.echo(f"{row['probability']:7.1%}  {row['score']:8.3f}  {printable(row['photo'])}  {row['sentence']}")
