"""What every dataset gives: records of an image, its captions and its split."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from smlstm.data.photos import SUFFIXES
from smlstm.errors import ConfigurationError, InputError

SPLITS = ("train", "dev", "test")
_SYNONYMS = {
    "train": "train",
    "training": "train",
    "restval": "train",
    "dev": "dev",
    "val": "dev",
    "valid": "dev",
    "validation": "dev",
    "test": "test",
    "testing": "test",
}


@dataclass(frozen=True)
class Record:
    """One image: its key in the feature store, its file, its captions (any number), its split."""

    key: str
    path: Path
    captions: tuple[str, ...]
    split: str


@dataclass(frozen=True)
class Dataset:
    """The records of one dataset, in a fixed order, and what was noticed while reading them."""

    name: str
    root: Path
    records: tuple[Record, ...]
    notes: tuple[str, ...] = ()
    """Sentences on what was left out or looks wrong, such as captions of images in no split."""

    def __post_init__(self) -> None:
        if not self.records:
            raise InputError(f"{self.root} looks like {self.name}, but has no image in any split")
        twice = [key for key, count in Counter(record.key for record in self.records).items() if count > 1]
        if twice:
            raise InputError(f'{self.root}: {len(twice)} images are listed twice, the first is "{twice[0]}"')

    def __len__(self) -> int:
        return len(self.records)

    @cached_property
    def splits(self) -> dict[str, int]:
        """How many images each split has; only splits that have any, train first."""
        counts = Counter(record.split for record in self.records)
        return {name: counts[name] for name in SPLITS if counts[name]}

    def split(self, name: str) -> tuple[Record, ...]:
        """Records of one split; a split that has none is refused, naming those that are there."""
        wanted = _SYNONYMS.get(name.strip().lower())
        if wanted not in self.splits:
            raise ConfigurationError(f'{self.root} has no "{name}" split; it has {", ".join(self.splits)}')
        return tuple(record for record in self.records if record.split == wanted)

    @cached_property
    def missing(self) -> tuple[Record, ...]:
        """Records whose image file is not there."""
        return tuple(record for record in self.records if record.path.name not in self._present[record.path.parent])

    @cached_property
    def unlisted(self) -> tuple[Path, ...]:
        """Photos that lie beside those of the records, but are in none."""
        listed = {record.path for record in self.records}
        photos = (
            folder / name for folder, names in self._present.items() for name in names if not name.startswith(".")
        )
        return tuple(sorted(path for path in photos if path.suffix.lower() in SUFFIXES and path not in listed))

    @cached_property
    def _present(self) -> dict[Path, set[str]]:
        """What the images' folders hold."""
        present: dict[Path, set[str]] = {}
        for folder in {record.path.parent for record in self.records}:
            # One listing a folder instead of a question a file: much faster on network disks.
            try:
                present[folder] = {entry.name for entry in folder.iterdir()}
            except OSError:
                present[folder] = set()
        return present


def split_name(name: str, where: str) -> str:
    """Translate the datasets' names of splits into train, dev and test; `where` it stands, for the message."""
    try:
        return _SYNONYMS[name.strip().lower()]
    except KeyError:
        raise InputError(f'{where}: "{name}" is no split: use train, dev (or val) or test') from None


def without_empty_captions(dataset: Dataset) -> Dataset:
    """Leave out captions that say nothing, and note how many and how many images are left without any."""
    kept = [tuple(stripped for text in record.captions if (stripped := text.strip())) for record in dataset.records]
    empty = sum(len(record.captions) for record in dataset.records) - sum(map(len, kept))
    bare = sum(not captions for captions in kept)
    notes = [f"{empty} captions are empty and were left out"] if empty else []
    # A folder of photos has no caption at all, which its reader says.
    notes += [f"{bare} images have no caption"] if bare and (empty or bare < len(kept)) else []
    records = tuple(replace(record, captions=each) for record, each in zip(dataset.records, kept, strict=True))
    return replace(dataset, records=records, notes=(*dataset.notes, *notes))


def assemble(
    captions: Mapping[str, list[str]], splits: Mapping[str, Iterable[str]], folder: Path
) -> tuple[tuple[Record, ...], tuple[str, ...]]:
    """Join captions by image name with names by split: records, and notes on what did not fit."""
    records: list[Record] = []
    bare: list[str] = []
    split_of: dict[str, str] = {}
    for split, names in splits.items():
        for name in names:
            if split_of.setdefault(name, split) != split:
                raise InputError(f'"{name}" is listed in both {split_of[name]} and {split}')
            if name in captions:
                records.append(Record(name, folder / name, tuple(captions[name]), split))
            else:
                bare.append(name)
    unlisted = [name for name in captions if name not in split_of]
    notes = []
    if bare:
        notes.append(f'{len(bare)} listed images have no caption and were left out, the first is "{bare[0]}"')
    if unlisted:
        notes.append(f'{len(unlisted)} images with captions are in no split, the first is "{unlisted[0]}"')
    return tuple(records), tuple(notes)
