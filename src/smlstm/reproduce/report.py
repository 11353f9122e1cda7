"""The report: sections of text, tables and figures, as Markdown and as a page that needs nothing else.

report/report.md, report/figures/*.png   for a repository
report/report.html                       one file
report/numbers.json                      every number, and the configuration without the places of files
"""

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from smlstm.data import open_features
from smlstm.model.config import paper
from smlstm.reproduce.config import ReproduceConfig
from smlstm.reproduce.figures import Figure, figures
from smlstm.reproduce.findings import Finding, findings, findings_table, paragraphs
from smlstm.reproduce.html_report import as_page
from smlstm.reproduce.measurements import ENSEMBLE, Ground
from smlstm.reproduce.report_tables import (
    Found,
    Table,
    attention_table,
    baselines_table,
    costs_table,
    paper_tables,
    readings_table,
    sweep_table,
)
from smlstm.training.config import StageConfig
from smlstm.training.folder import RunFolder, describe_machine

TITLE = "sm-LSTM reproduced"
_PRINTED = (
    "steps", "modulation", "comparison", "word_width", "sentence_width", "attention_width", "similarity_width",
    "hidden_width", "sentence_pooling",
)  # fmt: skip
"""Settings of the model that the paper gives."""
_NO_PHOTOS = (
    "Pairs with their photos, with and without context, are not part of this report, since photos of public datasets "
    "must not be passed on; smlstm reproduce CONFIG --report --pairs 12 writes them to pairs.html."
)
_ADDED = ("global_score", "instance_score", "language_model")
"""What the paper's model does not have."""


@dataclass(frozen=True)
class Section:
    """A heading, and what stands under it."""

    title: str
    texts: list[str]
    tables: list[Table]
    figures: list[Figure]


@dataclass(frozen=True)
class ReportFiles:
    """Where a report lies."""

    page: Path
    markdown: Path
    numbers: Path


def write_report(
    config: ReproduceConfig, ground: Ground, found: Found, folder: Path, pairs: Figure | None = None
) -> ReportFiles:
    """Write what is known by now; runs that are missing are shown as such. `pairs` that may be shown to anyone."""
    drawn, judged = figures(found, folder), findings(found)
    if pairs is not None:
        drawn[pairs.name] = pairs
    sections = [
        Section(
            "What agrees with the paper, and what does not",
            paragraphs(found, judged),
            [findings_table(judged)] if judged else [],
            [],
        ),
        Section("What was run", _about(config, ground, found, folder), [], []),
        *_sections(config, found, drawn),
    ]
    place = folder / "report"
    (place / "figures").mkdir(parents=True, exist_ok=True)
    for figure in drawn.values():
        (place / "figures" / f"{figure.name}.png").write_bytes(figure.png)
    files = ReportFiles(place / "report.html", place / "report.md", place / "numbers.json")
    files.page.write_text(as_page(TITLE, sections), encoding="utf-8")
    files.markdown.write_text(as_markdown(TITLE, sections), encoding="utf-8")
    files.numbers.write_text(json.dumps(_numbers(config, ground, found, judged), indent=1) + "\n", encoding="utf-8")
    return files


def _sections(config: ReproduceConfig, found: Found, drawn: dict[str, Figure]) -> list[Section]:
    def shown(*names: str) -> list[Figure]:
        return [drawn[name] for name in names if name in drawn]

    weight = (
        "Our squares of the regulariser are taken as a mean over candidates; the print has no square and no "
        "gradient (docs/model.md), so its lambda cannot be compared by its size."
    )
    steps, weights = sweep_table(found, "steps"), replace(sweep_table(found, "lambdas"), note=weight)
    attention = attention_table(found)
    return [
        Section("The paper's tables 1 and 2 beside ours", [], paper_tables(found), []),
        Section("The paper's tables 3 and 4 beside ours", [], [steps, weights], shown("sweeps")),
        Section("Beyond the paper", [], [readings_table(found), baselines_table(found)], []),
        Section("Costs", [], [costs_table(found)], shown("costs", "curves")),
        Section(
            "Where it looks",
            [] if "pairs" in drawn else [_NO_PHOTOS],
            [attention] if attention else [],
            shown("averaged-maps", "removal", "pairs"),
        ),
    ]


def _about(config: ReproduceConfig, ground: Ground, found: Found, folder: Path) -> list[str]:
    gallery, sweep = ground.gallery, config.reproduce
    base, spec = config.stage[found.plan.base], _features(ground)
    machine = RunFolder(folder).machine() or describe_machine()
    given = [name for name in config.stage if name not in (found.plan.mnlm, found.plan.base)]
    own = f", but these have settings of their own: {', '.join(given)}" if given else ""
    texts = [
        f"Data: {gallery.data}, {gallery.split} split, {len(gallery.keys)} images and {len(gallery.captions)} "
        f"captions, all pairs ranked. Features: {spec}. The paper measures on Flickr30k and COCO with VGG-19: its "
        "numbers stand beside ours for their order, not for their height.",
        f"Base model: variant {base.model['variant']}, T {base.model['steps']}, lambda {base.objective.regulariser:g}, "
        f"modulation {base.model['modulation']}, comparison {base.model['comparison']}, H "
        f"{base.model['hidden_width']}; {base.epochs} epochs at most, {_limits(found)}. {_departures(base)} Every "
        "other run differs from it in one setting. Baselines have the objective of their own papers; OEM and VSE++ are "
        "trained as MNLM is, "
        f"DVSA and SCAN as the base is{own}.",
        "One training run each, with one seed: intervals are over images (bootstrap, 95%), and say nothing of what "
        "another seed would give. The best epoch of each run was chosen on dev images"
        + (", which are also those measured here: the numbers flatter a little." if gallery.split == "dev" else "."),
        f"Machine: {machine['processor']}, {machine['threads']} threads, torch {machine['torch']}, smlstm "
        f"{machine['smlstm']}. Costs are wall-clock time and depend on what else it did.",
    ]
    smaller = _smaller(sweep.model_dump())
    together = [ENSEMBLE] if len(found.plan.of("variants")) > 1 else []
    missing = [name for name in (*found.plan.config.stage, *together) if name not in found.measured]
    if smaller:
        texts.append(f"Smaller than the paper's sweeps: {'; '.join(smaller)}.")
    if missing:
        texts.append(f"Not measured (yet): {', '.join(missing)}.")
    cut = [name for name, ended in found.trained.items() if not ended.finished]
    if cut:
        texts.append(f"Ended by the clock before their last epoch: {', '.join(cut)}.")
    return texts


def _limits(found: Found) -> str:
    """The minutes that runs were given."""
    runs: dict[float | None, list[str]] = {}
    for name, ended in found.trained.items():
        runs.setdefault(ended.limit, []).append(name)
    told = {limit: "no limit of time" if limit is None else f"at most {limit:g} minutes a run" for limit in runs}
    if len(runs) <= 1:
        return next(iter(told.values()), "nothing is trained yet")
    return "; ".join(f"{told[limit]}: {', '.join(names)}" for limit, names in runs.items())


def _departures(base: StageConfig) -> str:
    """In what the base is not the paper's model."""
    preset = paper()
    printed = {name: getattr(preset.model, name) for name in _PRINTED}
    apart = [f"{name.replace('_', ' ')} ({value})" for name, value in printed.items() if base.model[name] != value]
    if base.objective.form != preset.objective.form:
        apart.append(f"objective ({preset.objective.form})")
    if base.objective.regulariser != preset.objective.regulariser:
        apart.append(f"lambda ({preset.objective.regulariser:g})")
    apart += [f"{name.replace('_', ' ')} (none)" for name in _ADDED if base.model[name]]
    if not apart:
        return "It has the settings that the paper prints."
    return f"It departs from the paper (whose value is in brackets) in: {', '.join(apart)}."


def _features(ground: Ground) -> str:
    spec = open_features(ground.features).spec
    return f"{spec.backbone}, {spec.regions} regions of {spec.region_width}, context of {spec.context_width}"


def _smaller(sweep: dict[str, Any]) -> list[str]:
    """Which values of the paper are left out."""
    whole: dict[str, list[Any]] = {
        "variants": ["mean", "att", "ctx", "full"],
        "steps": [1, 2, 3, 4, 5],
        "lambdas": [0, 1, 10, 100, 1000],
    }
    told = []
    for part, values in whole.items():
        left = [str(value) for value in values if value not in sweep[part]]
        if left:
            told.append(f"{part} without {', '.join(left)}")
    return told


def _numbers(config: ReproduceConfig, ground: Ground, found: Found, judged: list[Finding]) -> dict[str, Any]:
    runs = {}
    for name, measured in found.measured.items():
        ended = found.trained.get(name)
        runs[name] = {
            **measured.result.to_dict(),
            "scoring_seconds": measured.seconds,
            "pairs": measured.pairs,
            "parameters": measured.parameters,
            "training": None if ended is None else asdict(ended),
        }
    return {
        "data": ground.gallery.data,
        "split": ground.gallery.split,
        "images": len(ground.gallery.keys),
        "captions": len(ground.gallery.captions),
        "points": [asdict(point) for point in found.plan.points],
        "runs": runs,
        "findings": [finding.to_dict() for finding in judged],
        "attention": {name: {k: v for k, v in seen.items() if k != "key"} for name, seen in found.attention.items()},
        "configuration": _without_places(config.model_dump(mode="json")),
    }


def _without_places(settings: Any) -> Any:
    """Settings in which a file is its name: where it lies is nobody's business but this machine's."""
    if isinstance(settings, dict):
        return {key: _without_places(value) for key, value in settings.items()}
    if isinstance(settings, list):
        return [_without_places(value) for value in settings]
    return Path(settings).name if isinstance(settings, str) and Path(settings).is_absolute() else settings


def as_markdown(title: str, sections: list[Section]) -> str:
    """The report for a repository; figures lie beside it."""
    parts = [f"# {title}"]
    for section in sections:
        parts += [f"## {section.title}", *section.texts]
        for table in section.tables:
            parts += [f"### {table.title}", *([table.note] if table.note else []), _markdown_table(table)]
        parts += [f"![{figure.told}](figures/{figure.name}.png)" for figure in section.figures]
    return "\n\n".join(parts) + "\n"


def _markdown_table(table: Table) -> str:
    above = [text for text, span in table.groups for _ in range(span)] or [""] * len(table.columns)
    # Markdown has one line of headings: the group's first word stands before each.
    heads = [
        f"{group.partition(':')[0].partition(',')[0]} {column}".strip()
        for group, column in zip(above, table.columns, strict=True)
    ]
    rows = [[cell.replace("*", "\\*") for cell in row] for row in table.rows]
    for number in table.strong:
        rows[number][0] = f"**{rows[number][0]}**"
    lines = [heads, ["---"] + ["---:"] * (len(heads) - 1), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
