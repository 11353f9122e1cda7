"""The numbers of the paper's four tables (CVPR 2017), as printed."""

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

RATES = ("i2t_r1", "i2t_r5", "i2t_r10", "t2i_r1", "t2i_r5", "t2i_r10")
TITLES = {"flickr30k": "Flickr30k, 1K test", "coco_1k": "COCO, 1K test"}


@dataclass(frozen=True)
class PaperRow:
    """One line of a table; None where nothing is printed."""

    name: str
    rates: tuple[float | None, ...]
    """R@1, 5, 10 from image to sentence, then from sentence to image."""
    i2t_median: float | None
    t2i_median: float | None
    sum: float | None
    """As printed; of the tables on T and lambda, which print none, the six added up."""


@cache
def paper_table(name: str) -> tuple[PaperRow, ...]:
    """The rows of `flickr30k`, `coco_1k`, `flickr30k_timesteps` or `flickr30k_lambda`."""
    tables = json.loads(Path(__file__).with_name("paper.json").read_text(encoding="utf-8"))
    rows = []
    for row in tables[name]:
        label = row.get("method", row.get("T", row.get("lambda")))
        rates = tuple(row[rate] for rate in RATES)
        added = None if None in rates else round(sum(rates), 1)
        rows.append(
            PaperRow(
                label if isinstance(label, str) else f"{label:g}",
                rates,
                row.get("i2t_medr"),
                row.get("t2i_medr"),
                row.get("sum", added),
            )
        )
    return tuple(rows)


def paper_sum(table: str, name: str) -> float | None:
    """The Sum of one row."""
    return next((row.sum for row in paper_table(table) if row.name == name), None)
