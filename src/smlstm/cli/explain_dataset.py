"""`smlstm explain --data`: galleries of a dataset's pairs, and averaged maps over a whole split."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from smlstm.cli.dataset_options import announce, extraction_bar, open_data, photo_bar
from smlstm.errors import InputError

if TYPE_CHECKING:
    from smlstm.data import Features, Record
    from smlstm.evaluation.models import Candidate
    from smlstm.explain import Explanation


@dataclass(frozen=True)
class DatasetPairs:
    """Which models look at which split."""

    models: list[Path]
    data: Path
    split: str
    features: Path | None
    grid: int | None
    captions: Path | None = None
    split_scheme: str | None = None

    def open(self, count: int | None) -> "tuple[list[Candidate], dict[str, Features], tuple[Record, ...]]":
        """Models, features by backbone, and photos from all over the split; extracts what is missing."""
        from smlstm.evaluation.evaluate import complete  # noqa: PLC0415 - torch takes seconds, --help should not
        from smlstm.evaluation.feature_plan import plan_features  # noqa: PLC0415
        from smlstm.evaluation.gallery import read_gallery, spoken_records, spread  # noqa: PLC0415
        from smlstm.evaluation.models import load_candidates  # noqa: PLC0415

        candidates = load_candidates(self.models)
        for candidate in candidates:
            if not candidate.matcher.attends:
                kind = candidate.matcher.kind
                raise InputError(f"{candidate.name} has no attention ({kind}): it cannot show what it looked at")
        dataset, features = open_data(self.data, self.captions, self.features, self.split_scheme)
        gallery, records, notes = read_gallery(dataset, self.split)
        chosen = spoken_records(gallery, records)
        chosen = chosen if count is None else spread(chosen, count)
        plans = plan_features(candidates, dataset, chosen, features=features, grid=self.grid)
        announce(notes, plans)
        return candidates, complete(plans, extraction_bar), chosen


def explain_pairs(chosen: DatasetPairs, count: int) -> "dict[str, list[Explanation]]":
    """Photos of the split with their first captions, as each model sees them."""
    from smlstm.explain import explain_records  # noqa: PLC0415 - torch takes seconds, --help should not

    candidates, features, records = chosen.open(count)
    return {
        each.name: explain_records(each.matcher, features[each.matcher.config.backbone], records) for each in candidates
    }


def explain_averages(chosen: DatasetPairs, out: Path | None, as_json: bool) -> None:
    """Write and print where each model looks on average, step by step."""
    from smlstm.explain import average_records, write_averages  # noqa: PLC0415 - torch takes seconds, --help should not

    candidates, features, records = chosen.open(None)
    maps = []
    for each in candidates:
        with photo_bar(f"Averaging {each.name}") as done:
            store = features[each.matcher.config.backbone]
            maps.append(average_records(each.matcher, store, records, name=each.name, progress=done))
    if out is not None:
        write_averages(maps, out)
    if as_json:
        content = {"models": [each.to_dict() for each in maps], "out": None if out is None else str(out)}
        typer.echo(json.dumps(content, indent=2))
        return
    for average in maps:
        typer.echo(f"{average.name}: {average.pairs} pairs; saliency in the central quarter of the photo (even: 25%)")
        for step, share in enumerate(average.central_shares):
            typer.echo(f"  step {step + 1}  {share:6.1%}")
    typer.echo(f"written: {out}" if out else "--out FILE.png or FILE.html shows the maps", err=True)
