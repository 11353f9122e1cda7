"""A reproduction from a configuration to a report: checked first, then run by run, each resumed where it was."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

from smlstm.data import open_features
from smlstm.data.scene_folder import has_places
from smlstm.errors import InputError
from smlstm.evaluation.attention import Done
from smlstm.evaluation.attention_run import Bar
from smlstm.evaluation.gallery import spread
from smlstm.evaluation.models import load_candidates
from smlstm.explain import Explanation, explain_records, write_comparison
from smlstm.explain.picture import comparison
from smlstm.reproduce.budget import check_runs, train_within, trained
from smlstm.reproduce.config import ReproduceConfig
from smlstm.reproduce.figures import Figure
from smlstm.reproduce.measurements import Ground, Results, open_ground
from smlstm.reproduce.plan import Plan, chosen_parts, make_plan
from smlstm.reproduce.report import ReportFiles, write_report
from smlstm.reproduce.report_tables import Found
from smlstm.training import Watcher

DRAWN_PAIRS = 3
"""In the report itself, where pictures are drawn scenes."""


@dataclass(frozen=True)
class Outcome:
    """What became of it."""

    report: ReportFiles
    runs: int
    """Runs of the parts that were chosen."""
    done: int
    interrupted: bool = False


def reproduce(
    config: ReproduceConfig,
    folder: Path,
    *,
    only: Sequence[str] | None = None,
    minutes: float | None = None,
    pairs: int = 0,
    report_only: bool = False,
    watcher: Watcher | None = None,
    bar: Bar | None = None,
    show: bool = False,
) -> Outcome:
    """Train and measure what is missing of the chosen parts, and write a report of all that is there.

    `minutes` is the most that one run may train. `pairs`: so many pairs with their photos as a page of their own.
    Ctrl-C ends it in peace; the same call goes on.
    """
    watcher = watcher or Watcher()
    parts = chosen_parts(only)
    plan = make_plan(config)
    ground = open_ground(config)
    budget = minutes if minutes is not None else config.reproduce.minutes
    names = plan.runs(parts)
    check_runs(plan.config, folder, names)
    for note in ground.notes:
        watcher.notice(f"note: {note}")
    results = Results(folder, ground, config.device)
    interrupted = False
    if not report_only:
        known = [name for name in names if trained(plan.config, folder, name, budget) is not None]
        watcher.notice(f"{len(names)} runs, {len(known)} are trained already")
        interrupted = not _run_all(_Job(plan, folder, budget, results, watcher), names, show)
        if not interrupted:
            _measure_together(config, plan, parts, results, bar or _no_bar)
    if pairs and not interrupted:
        _write_pairs(plan, results, ground, pairs, folder / "pairs.html")
    drawn = _drawn_pairs(plan, results, ground) if has_places(ground.dataset.root) else None
    files = write_report(config, ground, Found.collect(plan, results, folder), folder, drawn)
    return Outcome(files, len(names), sum(results.find(name) is not None for name in names), interrupted)


@dataclass(frozen=True)
class _Job:
    plan: Plan
    folder: Path
    minutes: float | None
    results: Results
    watcher: Watcher


def _run_all(job: _Job, names: Sequence[str], show: bool) -> bool:
    """Train and measure run by run; False if someone interrupted it."""
    variants = {point.run for point in job.plan.of("variants")}
    for number, name in enumerate(names):
        if trained(job.plan.config, job.folder, name, job.minutes) is None:
            job.watcher.notice(f"run {number + 1} of {len(names)}: {name}")
            if train_within(job.plan.config, job.folder, name, job.minutes, job.watcher) is None:
                return False
        job.results.measure(name, keep=name in variants, show=show)
        found = job.results.find(name)
        assert found is not None
        job.watcher.notice(f"{name}: Sum {found.result.metrics.sum:.1f}, scored in {found.seconds:.1f} s")
    return True


def _measure_together(config: ReproduceConfig, plan: Plan, parts: Sequence[str], results: Results, bar: Bar) -> None:
    """The ensemble of the variants, and where the models look."""
    members = [point.run for point in plan.of("variants")]
    if "variants" in parts and len(members) > 1:
        results.measure_ensemble(members)
    if "attention" in parts:
        for name in plan.attending():
            results.measure_attention(name, config.reproduce.attention_images, bar)


def _write_pairs(plan: Plan, results: Results, ground: Ground, count: int, path: Path) -> None:
    """The same pairs with and without context, over the whole split; photos are shown, so this page is apart."""
    explained = _explain_pairs(plan, results, ground, count)
    if not explained:
        raise InputError("no model with attention is trained yet: there are no pairs to show")
    path.parent.mkdir(parents=True, exist_ok=True)
    write_comparison(explained, path)


def _drawn_pairs(plan: Plan, results: Results, ground: Ground) -> Figure | None:
    """The same for the report itself: scenes that were drawn are nobody's photos."""
    explained = _explain_pairs(plan, results, ground, DRAWN_PAIRS)
    if not explained:
        return None
    file = BytesIO()
    comparison(explained).save(file, "PNG")
    return Figure("pairs", f"The same scenes as {' and '.join(explained)} see them, step by step.", file.getvalue())


def _explain_pairs(plan: Plan, results: Results, ground: Ground, count: int) -> dict[str, list[Explanation]]:
    """Pairs over the whole split as the models with attention see them, by the runs' names."""
    names = [name for name in plan.attending() if results.model_folder(name).exists()]
    chosen, store = spread(ground.records, count), open_features(ground.features)
    matchers = {name: load_candidates([results.model_folder(name)])[0].matcher for name in names}
    return {name: explain_records(each, store, chosen) for name, each in matchers.items()}


def _no_bar(title: str) -> AbstractContextManager[Done]:
    return nullcontext(lambda done, total: None)
