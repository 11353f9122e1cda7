"""Does a model rank the same photos alike at any size and quality?

    python benchmarks/robustness.py DATASET [--model MODEL] [--images 500] [--split dev]

The first images of a split are saved anew as JPEGs: as they are, with quality 95, which is the baseline; with a longer
side of 200 to 2000 px (enlarged where the photo is smaller); with qualities of 30 to 75 at its own size. Each set goes
through decoding, backbone and scoring as a user's photos do. Printed are its Sum, how far it is from the baseline with
the interval of a paired test, and the largest difference between two sets.
"""

import argparse
import csv
import tempfile
from collections.abc import Sequence
from pathlib import Path

from PIL import Image

from smlstm.data import Record, open_dataset
from smlstm.evaluation.evaluate import Evaluation, report
from smlstm.evaluation.models import load_candidates
from smlstm.evaluation.results import Result, comparisons

SIDES, QUALITIES = (200, 350, 500, 1000, 2000), (30, 50, 75)
AS_THEY_ARE = "as they are, quality 95"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dataset", type=Path)
    parser.add_argument("--model", type=Path, default=None, help="a saved model or pair (default: the shipped one)")
    parser.add_argument("--images", type=int, default=500)
    parser.add_argument("--split", default="dev")
    options = parser.parse_args()
    records = [each for each in open_dataset(options.dataset).records if each.split == options.split and each.captions]
    records = records[: options.images]
    print(f"{options.dataset.name} {options.split}: {len(records)} images", flush=True)
    sets: dict[str, tuple[int | None, int]] = {AS_THEY_ARE: (None, 95)}
    sets |= {f"{side} px": (side, 95) for side in SIDES} | {f"quality {each}": (None, each) for each in QUALITIES}
    results: list[Result] = []
    for name, (side, quality) in sets.items():
        found = measure(name, records, side, quality, options.model)
        results.append(found)
        line = f"{name:24} Sum {found.metrics.sum:6.1f}"
        if len(results) > 1:
            (test,) = comparisons([results[0], found])
            difference = test.found.difference
            line += f"  {difference.value:+5.1f} ({difference.low:+.1f} to {difference.high:+.1f})"
        print(line, flush=True)
    sums = [each.metrics.sum for each in results]
    print(f"largest difference between two sets: {max(sums) - min(sums):.1f}")


def measure(name: str, records: Sequence[Record], side: int | None, quality: int, model: Path | None) -> Result:
    """How a model ranks the photos of one set."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        with (place / "captions.csv").open("w", newline="", encoding="utf-8") as file:
            table = csv.writer(file)
            table.writerow(["path", "caption", "split"])
            for number, record in enumerate(records):
                save(record.path, place / f"{number:05}.jpg", side, quality)
                table.writerows((f"{number:05}.jpg", caption, "dev") for caption in record.captions)
        candidates = load_candidates([] if model is None else [model])
        evaluation = Evaluation.plan(candidates, open_dataset(place), "dev", features=place / "features")
        scored = [(name, scores) for _, scores in evaluation.score()]
        return report(scored, evaluation.gallery).results[0]


def save(photo: Path, out: Path, side: int | None, quality: int) -> None:
    """Save a photo anew, with a longer side of so many pixels."""
    with Image.open(photo) as image:
        shown = image.convert("RGB")
    if side is not None:
        scale = side / max(shown.size)
        width, height = (max(1, round(each * scale)) for each in shown.size)
        shown = shown.resize((width, height), Image.Resampling.LANCZOS)
    shown.save(out, "JPEG", quality=quality)


if __name__ == "__main__":
    main()
