"""`smlstm evaluate`: how good models are on a dataset, and whether people agree with them."""

import json
import math
import sys
from collections.abc import Iterator
from dataclasses import asdict
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from smlstm.cli import app
from smlstm.cli.dataset_options import announce, extraction_bar, given_options, on_terminal, open_data, refuse_beside
from smlstm.cli.evaluate_attention import measure_and_print
from smlstm.errors import ConfigurationError

if TYPE_CHECKING:
    from smlstm.evaluation.correlation import Correlation
    from smlstm.evaluation.evaluate import Named, Report
    from smlstm.evaluation.judgement import Judgements


_BESIDE_NO_MATRICES = (
    "data", "split", "split_scheme", "features", "captions", "grid", "images", "save", "judgement", "kind", "attention",
    "precision", "device", "cascade", "shortlister", "phrases", "terms",
)  # fmt: skip
"""What saved matrices have already decided."""
_CASCADE = ("cascade", "shortlister")


class Protocol(str, Enum):
    """Which images are ranked against each other."""

    all = "all"
    folds = "folds"


class Ensemble(str, Enum):
    """How the matrices of several models are put together."""

    sum = "sum"
    standardised = "standardised"
    none = "none"


class Kind(str, Enum):
    """Whose ratings a file holds."""

    expert = "expert"
    crowd = "crowd"


class Precision(str, Enum):
    """The number format of the products."""

    float32 = "float32"
    bfloat16 = "bfloat16"


@app.command()
def evaluate(
    context: typer.Context,
    models: Annotated[
        list[Path] | None, typer.Argument(metavar="MODEL", help="Saved models; with --matrices, saved matrices.")
    ] = None,
    *,
    data: Annotated[
        Path | None, typer.Option(help="A dataset, or a feature store whose captions --captions gives.")
    ] = None,
    split: Annotated[str, typer.Option(help="train, dev or test.")] = "dev",
    split_scheme: Annotated[
        str | None, typer.Option(help="Which published splits: official, kiros or karpathy.")
    ] = None,
    features: Annotated[
        Path | None, typer.Option(help="Feature store; photos that it lacks are added. By default in the cache.")
    ] = None,
    captions: Annotated[
        Path | None, typer.Option(help="The dataset of the captions, where --data is a feature store.")
    ] = None,
    grid: Annotated[int | None, typer.Option(help="Side of the square of regions, for features made anew.")] = None,
    images: Annotated[int | None, typer.Option(min=2, help="Only the first images, this many.")] = None,
    protocol: Annotated[
        Protocol, typer.Option(help="all: every image against every sentence; folds: within each 1000 images, means.")
    ] = Protocol.all,
    ensemble: Annotated[
        Ensemble, typer.Option(help="How scores of several models are added: the paper's sum, standardised, or none.")
    ] = Ensemble.sum,
    compare: Annotated[
        bool, typer.Option("--compare", help="Test every pair of models, not just each against the first.")
    ] = False,
    cascade: Annotated[
        str | None,
        typer.Option(
            metavar="K[,K_IMAGES]",
            help="Score only the best K sentences of each image and the best K_IMAGES images of each sentence "
            "(unless said, K) by --shortlister, or by the model's own global score.",
        ),
    ] = None,
    shortlister: Annotated[
        Path | None, typer.Option(metavar="MODEL", help="The cheap model of --cascade, such as an MNLM.")
    ] = None,
    terms: Annotated[
        bool,
        typer.Option("--terms", help="Measure what each term of an sm-LSTM's score ranks by itself: do the steps pay?"),
    ] = False,
    save: Annotated[Path | None, typer.Option(help="Folder for the similarity matrices.")] = None,
    matrices: Annotated[
        bool, typer.Option("--matrices", help="Measure, and add, matrices that were saved earlier.")
    ] = False,
    judgement: Annotated[
        Path | None, typer.Option(help="Ratings of image-caption pairs: how far do scores agree with people?")
    ] = None,
    kind: Annotated[Kind, typer.Option(help="Whose ratings: Flickr8k's expert or crowd file.")] = Kind.expert,
    attention: Annotated[
        bool,
        typer.Option(
            "--attention",
            help="Is the attention right? Deletion and insertion on the first --images photos (100), and the pointing "
            "game where --data is a folder of composed scenes.",
        ),
    ] = False,
    phrases: Annotated[
        Path | None,
        typer.Option(
            help="With --attention: phrases with boxes, in the layout of Flickr30k Entities (Annotations, Sentences); "
            "plays the pointing game with them instead.",
        ),
    ] = None,
    precision: Annotated[
        Precision, typer.Option(help="sm-LSTM's products: bfloat16 is faster where the processor has it.")
    ] = Precision.float32,
    device: Annotated[str, typer.Option(help="cpu, cuda, mps; auto takes the first GPU, else the CPU.")] = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
) -> None:
    """Measure models on a split of a dataset: R@1, 5, 10, median and mean rank, MRR both ways, Sum.

    Several models are measured one by one and as an ensemble, and tested against the first. What does not fit
    together is refused before anything long begins.
    """
    # Imported here, since torch takes seconds and --help should not.
    from smlstm.evaluation.evaluate import Evaluation, judge, report  # noqa: PLC0415 - torch takes seconds, --help should not
    from smlstm.evaluation.feature_plan import plan_features  # noqa: PLC0415
    from smlstm.evaluation.judgement import read_judgements  # noqa: PLC0415
    from smlstm.evaluation.matrices import load_matrices  # noqa: PLC0415
    from smlstm.evaluation.models import load_candidates  # noqa: PLC0415

    if matrices:
        refuse_beside(context, "--matrices", _BESIDE_NO_MATRICES)
        saved = load_matrices(models or [])
        gallery = saved[0].gallery
        scored: Iterator[Named] = ((matrix.name, matrix.scores) for matrix in saved)
    else:
        if data is None:
            raise ConfigurationError("--data is missing: give a dataset's folder, or saved matrices with --matrices")
        dataset, features = open_data(data, captions, features, split_scheme)
        if judgement is not None:
            refuse_beside(
                context, "--judgement", ("save", "images", "compare", "attention", "protocol", "terms", *_CASCADE)
            )
            rated = read_judgements(judgement, kind.value, dataset)
            candidates = load_candidates(models or [], device)
            plans = plan_features(candidates, dataset, rated.records, features=features, grid=grid)
            announce(dataset.notes, plans)
            agreement = judge(
                candidates,
                rated,
                plans,
                precision=precision.value,
                ensemble=ensemble.value,
                extraction=extraction_bar,
                show=on_terminal(),
            )
            _print_judgement(judgement, rated, agreement, as_json)
            return
        if attention:
            refuse_beside(
                context,
                "--attention",
                ("save", "compare", "protocol", "ensemble", "precision", "kind", "terms", *_CASCADE),
            )
            measure_and_print(
                load_candidates(models or [], device),
                dataset,
                split,
                images=images,
                features=features,
                grid=grid,
                as_json=as_json,
                phrases=phrases,
            )
            return
        if phrases is not None:
            raise ConfigurationError("--phrases goes with --attention: it says where the words of captions are")
        if given_options(context, ["kind"]):
            raise ConfigurationError("--kind goes with --judgement, a file of ratings")
        if terms:
            refuse_beside(context, "--terms", ("save", "ensemble", *_CASCADE))
            ensemble = Ensemble.none
        if cascade is not None:
            # Below the shortlist a score only says the order: neither to be added to others nor to be kept.
            refuse_beside(context, "--cascade", ("save", "ensemble"))
            ensemble = Ensemble.none
        elif shortlister is not None:
            raise ConfigurationError("--shortlister goes with --cascade K, the length of its lists")
        evaluation = Evaluation.plan(
            load_candidates(models or [], device),
            dataset,
            split,
            images=images,
            protocol=protocol.value,
            features=features,
            grid=grid,
            precision=precision.value,
            save=save,
            cascade=None if cascade is None else _list_lengths(cascade),
            shortlister=None if shortlister is None else load_candidates([shortlister], device)[0],
            terms=terms,
        )
        announce(evaluation.notes, evaluation.plans)
        gallery = evaluation.gallery
        scored = evaluation.score(extraction_bar, on_terminal())
    found = report(scored, gallery, protocol=protocol.value, ensemble=ensemble.value, every_pair=compare)
    _print(found, as_json)


def _list_lengths(text: str) -> tuple[int, int]:
    """K, or K,K_IMAGES."""
    parts = text.split(",")
    if len(parts) > 2 or not all(part.isdecimal() and int(part) for part in parts):
        raise ConfigurationError(f'--cascade takes one or two numbers above 0, such as 100 or 100,50, not "{text}"')
    return int(parts[0]), int(parts[-1])


def _print(found: "Report", as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(found.to_dict(), indent=2))
        return
    gallery = found.gallery
    folds = ", means over folds of 1000 images" if found.protocol == "folds" else ""
    typer.echo(f"{gallery.data} {gallery.split}: {len(gallery.keys)} images, {len(gallery.captions)} captions{folds}")
    _console().print(_table(found))
    for each in found.comparisons:
        test = each.found
        typer.echo(
            f"{each.one} - {each.other}: Sum {test.difference.value:+.1f}, "
            f"95% {test.difference.low:+.1f} to {test.difference.high:+.1f}, p {test.p:.2g}"
        )


def _table(found: "Report") -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("model")
    table.add_column("way", no_wrap=True)
    for column in ("R@1", "R@5", "R@10", "Med r", "mean r", "MRR", "Sum", "95% interval"):
        table.add_column(column, justify="right", no_wrap=True)
    for result in found.results:
        interval = result.intervals["sum"]
        sums = (f"{result.metrics.sum:.1f}", f"{interval.low:.1f} to {interval.high:.1f}")
        for name, way, side, more in (
            (result.name, "i2t", result.metrics.annotation, sums),
            ("", "t2i", result.metrics.retrieval, ("", "")),
        ):
            rates = (f"{rate:.1f}" for rate in (side.r1, side.r5, side.r10, side.median, side.mean))
            table.add_row(name, way, *rates, f"{side.mrr:.3f}", *more)
    return table


def _print_judgement(path: Path, rated: "Judgements", found: "dict[str, Correlation]", as_json: bool) -> None:
    pairs, ratings = len(rated.pairs), rated.ratings.size
    if as_json:
        rows = [
            {"model": name, **{key: None if math.isnan(value) else value for key, value in asdict(row).items()}}
            for name, row in found.items()
        ]
        content = {"judgement": str(path), "kind": rated.kind, "pairs": pairs, "ratings": ratings}
        typer.echo(json.dumps({**content, "own_left_out": rated.own, "results": rows}, indent=2))
        return
    typer.echo(
        f"{rated.kind} ratings: {pairs} pairs, {ratings} ratings; {rated.own} pairs left out (the image's own captions)"
    )
    table = Table(box=None, pad_edge=False)
    table.add_column("model")
    for column in ("Kendall tau-b", "tau-c", "Spearman"):
        table.add_column(column, justify="right", no_wrap=True)
    for name, row in found.items():
        numbers = (row.kendall_b, row.kendall_c, row.spearman)
        table.add_row(name, *("-" if math.isnan(number) else f"{number:.3f}" for number in numbers))
    _console().print(table)


def _console() -> Console:
    return Console(width=None if sys.stdout.isatty() else 200)
