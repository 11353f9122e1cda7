"""What a dataset holds, in numbers: what `smlstm data check` prints."""

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

from smlstm.data.records import Dataset, Record

_SHOWN = 5


@dataclass(frozen=True)
class Summary:
    """Counts of a dataset, what is missing, and a few of its rows."""

    name: str
    root: str
    images: int
    captions: int
    splits: dict[str, dict[str, int]]
    """Images and captions of each split."""
    captions_per_image: dict[int, int]
    """How many images have this number of captions."""
    missing: int
    missing_first: list[str]
    notes: list[str]
    samples: list[dict[str, str]]

    def to_dict(self) -> dict[str, Any]:
        """Give the fields as JSON would write them."""
        return asdict(self)


def summarise(dataset: Dataset) -> Summary:
    """Count what a dataset holds, and look whether its images are there."""
    numbers = Counter(len(record.captions) for record in dataset.records)
    splits = {name: dataset.split(name) for name in dataset.splits}
    return Summary(
        name=dataset.name,
        root=str(dataset.root),
        images=len(dataset),
        captions=_captions_of(dataset.records),
        splits={name: {"images": len(records), "captions": _captions_of(records)} for name, records in splits.items()},
        captions_per_image=dict(sorted(numbers.items())),
        missing=len(dataset.missing),
        missing_first=[str(record.path) for record in dataset.missing[:_SHOWN]],
        notes=[*dataset.notes, *_unlisted(dataset)],
        samples=[
            {"key": record.key, "split": record.split, "caption": record.captions[0] if record.captions else ""}
            for record in _spread(dataset.records)
        ],
    )


def _unlisted(dataset: Dataset) -> list[str]:
    photos = dataset.unlisted
    return (
        [f'{len(photos)} photos in its folders are not of this dataset, the first is "{photos[0]}"'] if photos else []
    )


def _captions_of(records: tuple[Record, ...]) -> int:
    return sum(len(record.captions) for record in records)


def _spread(records: tuple[Record, ...]) -> list[Record]:
    """Take the first, the middle and the last record: of different splits, usually."""
    places = dict.fromkeys((0, len(records) // 2, len(records) - 1))
    return [records[place] for place in places]
