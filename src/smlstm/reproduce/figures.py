"""The report's figures, as PNG."""

from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from smlstm.explain import AveragedMaps
from smlstm.explain.picture import averages
from smlstm.reproduce.measurements import ENSEMBLE
from smlstm.reproduce.paper import paper_table
from smlstm.reproduce.report_tables import SWEEPS, Found
from smlstm.training.folder import read_metrics

_COLOURS = ("#0b6fa4", "#c8472b", "#3d8c40", "#7a4fa3", "#b8860b", "#555555")
_DASHES = ("-", "--", ":", "-.")
_PLACES = [(right, up) for up in (4, -12, 16, -24, 28, -36) for right in (6, -6)]
"""Of a label beside its point."""


@dataclass(frozen=True)
class Figure:
    """A picture with its name and what it shows in words."""

    name: str
    told: str
    png: bytes


def figures(found: Found, folder: Path) -> dict[str, Figure]:
    """All figures that there are numbers for, by name."""
    made = [_sweeps(found), _costs(found), _curves(found, folder), _averages(found), _removal(found)]
    return {figure.name: figure for figure in made if figure is not None}


def _canvas(width: float, height: float) -> Any:
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415 - slow to import
    from matplotlib.figure import Figure as Canvas  # noqa: PLC0415

    canvas = Canvas(figsize=(width, height), dpi=110, layout="constrained")
    FigureCanvasAgg(canvas)
    return canvas


def _plain(*axes: Any) -> None:
    for each in axes:
        each.grid(alpha=0.3)
        each.spines[["top", "right"]].set_visible(False)


def _png(canvas: Any, name: str, told: str) -> Figure:
    file = BytesIO()
    canvas.savefig(file, format="png", metadata={"Software": None})
    return Figure(name, told, file.getvalue())


def _sweeps(found: Found) -> Figure | None:
    """Sum over T and over lambda, ours with intervals and the paper's."""
    shown = []
    for part, (_, label, table) in SWEEPS.items():
        points = [(point.value, each) for point in found.plan.of(part) if (each := found.of(point.run)) is not None]
        if points:
            shown.append((label, table, points))
    if not shown:
        return None
    canvas = _canvas(5.6 * len(shown), 6)
    for column, (label, table, points) in zip(canvas.subplots(2, len(shown), squeeze=False).T, shown, strict=True):
        paper = [(row.name, row.sum or 0.0) for row in paper_table(table)]
        names = sorted({*(value for value, _ in points), *(name for name, _ in paper)}, key=float)
        places = {name: place for place, name in enumerate(names)}
        sums = np.array([each.result.metrics.sum for _, each in points])
        bounds = [each.result.intervals["sum"] for _, each in points]
        spread = np.array([sums - [each.low for each in bounds], [each.high for each in bounds] - sums]).clip(0)
        where = [places[value] for value, _ in points]
        column[0].errorbar(where, sums, spread, color=_COLOURS[0], marker="o", capsize=4)
        column[1].plot([places[name] for name, _ in paper], [each for _, each in paper], color=_COLOURS[1], marker="s")
        # The same length of the scale, so that a rise looks alike in both.
        height = max(np.ptp(each.get_ylim()) for each in column)
        for axes, title in zip(column, ("ours, on the data given, 95%", "paper, Flickr30k"), strict=True):
            middle = np.mean(axes.get_ylim())
            axes.set(title=title, xlabel=label, ylabel="Sum", ylim=(middle - height / 2, middle + height / 2))
            axes.set(xticks=range(len(names)), xticklabels=names, xlim=(-0.3, len(names) - 0.7))
        _plain(*column)
    return _png(canvas, "sweeps", "Sum over T and over lambda, ours with 95% intervals beside the paper's.")


def _costs(found: Found) -> Figure | None:
    """How good against how fast."""
    if len(found.measured) < 2:
        return None
    canvas = _canvas(9, 4.2)
    axes = canvas.subplots()
    matchers = [found.plan.mnlm, found.plan.base, ENSEMBLE]
    matchers += [point.run for part in ("variants", "baselines") for point in found.plan.of(part)]
    points = {}
    for name in dict.fromkeys(matchers):
        each = found.of(name)
        if each is None:
            continue
        interval = each.result.intervals["sum"]
        points[name] = (each.pairs_per_second, each.result.metrics.sum)
        axes.plot([each.pairs_per_second] * 2, [interval.low, interval.high], color=_COLOURS[0], alpha=0.4)
        axes.plot(*points[name], color=_COLOURS[0], marker="o")
    axes.set(xscale="log", xlabel="pairs scored a second", ylabel="Sum, 95%")
    axes.margins(x=0.15)
    _plain(axes)
    _name_points(canvas, axes, points)
    return _png(canvas, "costs", "Sum of each matcher against the pairs that it scores a second.")


def _name_points(canvas: Any, axes: Any, points: dict[str, tuple[float, float]]) -> None:
    """A label beside each point: of some places, the first where it covers no other label and no point."""
    canvas.canvas.draw()  # places are known once all has been laid out
    taken = [axes.transData.transform(point) for point in points.values()]
    boxes: list[Any] = []
    for name, point in points.items():
        for right, up in _PLACES:
            side = "left" if right > 0 else "right"
            label = axes.annotate(name, point, xytext=(right, up), textcoords="offset points", ha=side)
            box = label.get_window_extent()
            if not any(map(box.overlaps, boxes)) and not any(box.contains(*other) for other in taken):
                break
            label.remove()
        else:
            axes.add_artist(label)  # crowded everywhere
        boxes.append(box)


def _curves(found: Found, folder: Path) -> Figure | None:
    """Dev Sum of every run over the minutes it trained."""
    lines = {}
    for name in found.plan.config.stage:
        measured = [line for line in read_metrics(folder / name / "metrics.jsonl") if "dev" in line]
        if measured:
            lines[name] = ([line["seconds"] / 60 for line in measured], [line["dev"]["sum"] for line in measured])
    if not lines:
        return None
    images = {name: found.plan.config.stage[name].dev_images for name in lines}
    differ = len(set(images.values())) > 1
    labels = {name: f"{name} ({count} images)" if differ else name for name, count in images.items()}
    canvas = _canvas(11, 4.5)
    axes = canvas.subplots()
    for number, (name, (minutes, sums)) in enumerate(lines.items()):
        colour, dash = _COLOURS[number % len(_COLOURS)], _DASHES[number // len(_COLOURS) % len(_DASHES)]
        axes.plot(minutes, sums, color=colour, linestyle=dash, marker=".", label=labels[name])
    axes.set(xlabel="minutes of training", ylabel="dev Sum")
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), fontsize="small")
    _plain(axes)
    told = "Dev Sum of every run over the minutes that it trained."
    return _png(canvas, "curves", f"{told} It is higher among fewer images." if differ else told)


def _averages(found: Found) -> Figure | None:
    maps = [averaged(seen["average"]) for seen in found.attention.values()]
    if not maps:
        return None
    file = BytesIO()
    averages(maps, side=300).save(file, "PNG")
    told = "Averaged maps at each step: " + "; ".join(
        f"{each.name}, in the central quarter {', '.join(f'{share:.0%}' for share in each.central_shares)}"
        for each in maps
    )
    return Figure("averaged-maps", told, file.getvalue())


def averaged(saved: dict[str, Any]) -> AveragedMaps:
    """Averaged maps as they were before they were JSON."""
    return AveragedMaps(np.array(saved["regions"], np.float32), int(saved["pairs"]), str(saved["name"]))


def _removal(found: Found) -> Figure | None:
    """Scores as regions are removed or put back, by saliency and at random."""
    shown: Sequence[tuple[str, dict[str, Any]]] = [
        (name, seen["removal"][0]) for name, seen in found.attention.items() if seen["removal"]
    ]
    if not shown:
        return None
    canvas = _canvas(11, 3.8)
    for axes, way in zip(canvas.subplots(1, 2), ("deletion", "insertion"), strict=True):
        for (name, removal), colour in zip(shown, _COLOURS, strict=False):
            axes.plot(removal["parts"], removal[way]["by_saliency"], color=colour, label=f"{name}, by saliency")
            axes.plot(
                removal["parts"], removal[way]["at_random"], color=colour, linestyle="--", label=f"{name}, at random"
            )
        done = "removed" if way == "deletion" else "put back"
        axes.set(title=way, xlabel=f"part of the regions {done}", ylabel="mean score")
        axes.legend()
        _plain(axes)
    return _png(canvas, "removal", "Mean score as regions are removed or put back, by saliency and at random.")
