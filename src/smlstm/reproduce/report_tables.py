"""The report's tables: each of the paper's beside ours, then what the paper does not have."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from smlstm.evaluation import Difference, compare
from smlstm.reproduce.budget import Trained, trained
from smlstm.reproduce.measurements import ENSEMBLE, Measured, Results
from smlstm.reproduce.paper import TITLES, PaperRow, paper_table
from smlstm.reproduce.plan import Plan

NONE = "-"
OURS = ("i2t R@1 / 5 / 10", "Med r", "t2i R@1 / 5 / 10", "Med r", "Sum", "95% interval")
SWEEPS = {
    "steps": ("Number of steps T", "T", "flickr30k_timesteps"),
    "lambdas": ("Weight of the regulariser", "lambda", "flickr30k_lambda"),
}
"""Title, letter, and the paper's table."""
_BASELINES = {"OEM": "oem", "DVSA (BRNN)": "dvsa", "DVSA": "dvsa"}
_PRINTED = {"sm-LSTM-mean": "mean", "sm-LSTM-att": "att", "sm-LSTM-ctx": "ctx", "sm-LSTM": "full"}


@dataclass(frozen=True)
class Table:
    """Cells of text under headings; headings may stand in groups."""

    title: str
    columns: tuple[str, ...]
    rows: list[list[str]]
    note: str = ""
    groups: tuple[tuple[str, int], ...] = ()
    """Headings above the columns: the text, and over how many."""
    strong: frozenset[int] = field(default=frozenset())
    """Rows that are to be seen first."""


@dataclass(frozen=True, eq=False)
class Found:
    """All that is known of the runs of a plan."""

    plan: Plan
    measured: dict[str, Measured]
    trained: dict[str, Trained]
    attention: dict[str, dict[str, Any]]

    @classmethod
    def collect(cls, plan: Plan, results: Results, folder: Path) -> "Found":
        """Read what is there."""
        measured = {name: found for name in plan.config.stage if (found := results.find(name)) is not None}
        members = [point.run for point in plan.of("variants")]
        if len(members) > 1 and (ensemble := results.find_ensemble(members)) is not None:
            measured[ENSEMBLE] = ensemble
        ended = {name: end for name in plan.config.stage if (end := trained(plan.config, folder, name, 0.0))}
        attention = {name: seen for name in plan.attending() if (seen := results.find_attention(name)) is not None}
        return cls(plan, measured, ended, attention)

    def run_of(self, method: str) -> str | None:
        """The run that stands for a method of the paper."""
        if method == "sm-LSTM*":
            return ENSEMBLE
        if method == "MNLM":
            return self.plan.mnlm
        if method in _PRINTED:
            return self.plan.run("variants", _PRINTED[method])
        return self.plan.run("baselines", _BASELINES[method]) if method in _BASELINES else None

    def of(self, name: str | None) -> Measured | None:
        """The numbers of a run, if it was measured."""
        return None if name is None else self.measured.get(name)

    @cached_property
    def _compared(self) -> dict[tuple[str, str], Difference]:
        return {}

    def difference(self, one: str | None, other: str | None) -> Difference | None:
        """A paired test between two runs, if both were measured."""
        first, second = self.of(one), self.of(other)
        if first is None or second is None or one is None or other is None or one == other:
            return None
        if (one, other) not in self._compared:
            self._compared[one, other] = compare(first.result.folds, second.result.folds)
        return self._compared[one, other]


def paper_tables(found: Found) -> list[Table]:
    """The two tables on state-of-the-art methods, ours on the data given beside them."""
    tables = []
    for name, title in TITLES.items():
        rows, strong = [], set()
        for number, row in enumerate(paper_table(name)):
            run = found.run_of(row.name)
            rows.append([row.name, *_printed(row), *_ours(found.of(run))])
            if found.of(run) is not None:
                strong.add(number)
        columns = ("method", *OURS[:5], *OURS)
        groups = (("", 1), (f"paper: {title}", 5), ("ours, on the data given", 6))
        tables.append(Table(f"Methods, beside the paper's {title}", columns, rows, "", groups, frozenset(strong)))
    return tables


def sweep_table(found: Found, part: str) -> Table:
    """A sweep of ours beside the paper's: its values and those that only we have."""
    title, label, printed = SWEEPS[part]
    paper = {row.name: row for row in paper_table(printed)}
    values = list(dict.fromkeys([*paper, *(point.value for point in found.plan.of(part))]))
    rows = []
    for value in sorted(values, key=float):
        cells = _printed(paper[value]) if value in paper else [NONE] * 5
        ours = _ours(found.of(found.plan.run(part, value)))
        rows.append([f"{label} = {value}", cells[0], cells[2], cells[4], ours[0], ours[2], *ours[4:]])
    columns = ("", OURS[0], OURS[2], OURS[4], OURS[0], OURS[2], *OURS[4:])
    groups = (("", 1), ("paper: Flickr30k", 3), ("ours, on the data given", 4))
    return Table(title, columns, rows, groups=groups)


def readings_table(found: Found) -> Table:
    """How context enters attention, and how attended instances are compared."""
    rows = []
    for part, what in (("modulations", "modulation"), ("comparisons", "comparison")):
        for point in found.plan.of(part):
            mark = " (base)" if point.run == found.plan.base else ""
            against = difference_text(found.difference(point.run, found.plan.base))
            rows.append([f"{what} {point.value}{mark}", *_ours(found.of(point.run)), against])
    return Table("Readings of the paper's equations", ("", *OURS, "Sum against the base"), rows)


def baselines_table(found: Found) -> Table:
    """Other papers' matchers on the same features."""
    runs = [("MNLM", found.plan.mnlm), *((point.value.upper(), point.run) for point in found.plan.of("baselines"))]
    runs += [("sm-LSTM (base)", found.plan.base), ("sm-LSTM*", ENSEMBLE)]
    rows = [
        [label, *_ours(found.of(run)), difference_text(found.difference(run, found.plan.base))] for label, run in runs
    ]
    return Table("Baselines on the same features", ("", *OURS, "Sum against the base"), rows)


def costs_table(found: Found) -> Table:
    """What each run cost to train and to score."""
    rows = []
    for name in [*found.plan.config.stage, ENSEMBLE]:
        measured, ended = found.of(name), found.trained.get(name)
        if measured is None and ended is None:
            continue
        training = [NONE] * 3 if ended is None else [f"{ended.minutes:.1f}", f"{ended.epochs:.1f}", ended.reason]
        scoring = [NONE] * 4
        if measured is not None:
            size, speed = f"{measured.parameters / 1e6:.2f}", f"{measured.pairs_per_second:,.0f}"
            scoring = [size, f"{measured.seconds:.1f}", speed, f"{measured.result.metrics.sum:.1f}"]
        rows.append([name, *training, *scoring])
    columns = ("run", "minutes", "epochs", "training ended", "million weights", "scoring, s", "pairs/s", "Sum")
    return Table("What each run cost", columns, rows, "Scoring: both sides encoded and all pairs of the split, once.")


def attention_table(found: Found) -> Table | None:
    """Deletion, insertion and pointing of the runs whose attention was measured."""
    rows = []
    for name, seen in found.attention.items():
        for removal in seen["removal"]:
            for way in ("deletion", "insertion"):
                area = removal[way]["difference"]
                what = f"{way} by saliency minus at random ({removal['filler']})"
                rows.append([name, what, _value(area, "+.4f"), "0"])
        game = seen["pointing"]
        if game is not None:
            baselines = ("chance", "centre", "any_object")
            others = ", ".join(f"{each.replace('_', ' ')} {game[each]:.3f}" for each in baselines)
            rows.append([name, "pointing game, hits", _value(game["hits"], ".3f"), others])
            inside = f"chance {game['chance']:.3f}, centre {game['centre_inside']:.3f}"
            rows.append([name, "saliency inside the named object", _value(game["inside"], ".3f"), inside])
    if not rows:
        return None
    note = "Deletion and insertion: the area between the two curves of scores; above 0, attention finds what matters."
    return Table("Is the attention right?", ("run", "measure", "value (95% interval)", "baseline"), rows, note)


def difference_text(found: Difference | None) -> str:
    """A difference of Sums with its interval."""
    if found is None:
        return NONE
    ours = found.difference
    value, low, high = (round(each, 1) + 0.0 for each in (ours.value, ours.low, ours.high))  # there is no -0.0
    return f"{value:+.1f} ({low:+.1f} to {high:+.1f})"


def _value(interval: dict[str, float], form: str) -> str:
    return f"{interval['value']:{form}} ({interval['low']:{form}} to {interval['high']:{form}})"


def _ours(found: Measured | None) -> list[str]:
    if found is None:
        return [NONE] * 6
    metrics, interval = found.result.metrics, found.result.intervals["sum"]
    cells = []
    for side in (metrics.annotation, metrics.retrieval):
        cells += [_triple((side.r1, side.r5, side.r10)), f"{side.median:.1f}"]
    return [*cells, f"{metrics.sum:.1f}", f"{interval.low:.1f} to {interval.high:.1f}"]


def _printed(row: PaperRow) -> list[str]:
    return [
        _triple(row.rates[:3]),
        _number(row.i2t_median),
        _triple(row.rates[3:]),
        _number(row.t2i_median),
        _number(row.sum),
    ]


def _triple(rates: Sequence[float | None]) -> str:
    return NONE if all(rate is None for rate in rates) else " / ".join(_number(rate) for rate in rates)


def _number(value: float | None) -> str:
    return NONE if value is None else f"{value:.1f}"
