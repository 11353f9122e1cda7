"""Curves of a run as a picture: how the loss fell, how dev Sum rose."""

from pathlib import Path
from typing import Any

from smlstm.files import whole_file
from smlstm.training.folder import read_metrics

_COLOURS = ("#0b6fa4", "#c8472b", "#3d8c40", "#7a4fa3", "#b8860b", "#555555")


def draw_curves(folder: Path, stages: list[str]) -> Path | None:
    """Draw the stages that have metrics; the picture's path, None if there is nothing to draw."""
    found = {stage: list(read_metrics(folder / stage / "metrics.jsonl")) for stage in stages}
    found = {stage: lines for stage, lines in found.items() if lines}
    if not found:
        return None
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415 - slow to import
    from matplotlib.figure import Figure  # noqa: PLC0415

    figure = Figure(figsize=(11, 4.5), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    for (stage, lines), colour in zip(found.items(), _COLOURS * len(found), strict=False):
        steps = [line for line in lines if line["event"] == "steps"]
        epochs = [line for line in lines if line["event"] == "epoch"]
        left.plot(
            [line["epoch_progress"] for line in steps], [line["loss"] for line in steps], color=colour, label=stage
        )
        if epochs:
            _draw_dev(right, stage, epochs, colour)
    left.set(title="training loss", xlabel="epoch", ylabel="loss", yscale="log")
    right.set(title="dev Sum (R@1 + R@5 + R@10, both ways)", xlabel="epoch", ylabel="Sum")
    for axes in (left, right):
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
        if axes.get_legend_handles_labels()[0]:
            axes.legend()
    path = folder / "curves.png"
    with whole_file(path) as file:
        figure.savefig(file, format="png")
    return path


def _draw_dev(axes: Any, stage: str, epochs: list[dict[str, Any]], colour: str) -> None:
    places, sums = [line["epoch"] + 1 for line in epochs], [line["dev"]["sum"] for line in epochs]
    axes.plot(places, sums, color=colour, marker="o", label=stage)
    best = max(range(len(sums)), key=sums.__getitem__)
    axes.annotate(
        f"{sums[best]:.1f}", (places[best], sums[best]), textcoords="offset points", xytext=(0, 6), ha="center"
    )
