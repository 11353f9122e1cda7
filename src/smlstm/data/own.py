"""Anyone's own data: a CSV or JSONL of path, caption and split, or just a folder of photos.

Several rows of one path are several captions of it. Paths are relative to the file's folder. Without a split
column everything is training data. A folder of photos has no captions: it can be extracted and searched.
"""

from collections.abc import Iterator
from pathlib import Path, PurePath

from smlstm.data.records import Dataset, Record, split_name
from smlstm.data.tables import read_table
from smlstm.errors import InputError

EXPECTED = "your own: a .csv, .tsv or .jsonl with path, caption and (if you have them) split, or a folder of photos"
SCHEMES: tuple[str, ...] = ()
PHOTOS = frozenset(
    [
        ".jpg",
        ".jpeg",
        ".jpe",
        ".jfif",
        ".png",
        ".webp",
        ".avif",
        ".gif",
        ".bmp",
        ".tif",
        ".tiff",
        ".heic",
        ".heif",
        ".dng",
        ".cr2",
        ".cr3",
        ".nef",
        ".arw",
        ".orf",
        ".rw2",
        ".raf",
    ]
)
_TABLES = frozenset((".csv", ".tsv", ".jsonl", ".ndjson"))


def recognise(path: Path) -> bool:
    """Whether a path is a table of captions, or a folder with one or with photos."""
    if path.is_file():
        return path.suffix.lower() in _TABLES
    return bool(_tables_of(path)) or any(True for _ in _photos_of(path))


def read(path: Path, scheme: str | None = None) -> Dataset:
    """Read a table of captions, or the only one of a folder, or a folder of photos."""
    if path.is_file():
        return _read_table(path, path.parent)
    tables = _tables_of(path)
    if len(tables) > 1:
        raise InputError(f"{path} has {len(tables)} tables ({', '.join(t.name for t in tables)}): name one of them")
    if tables:
        return _read_table(tables[0], path)
    records = tuple(
        Record(photo.relative_to(path).as_posix(), photo, (), "train") for photo in sorted(_photos_of(path))
    )
    return Dataset("photos", path, records, ("a folder of photos: there are no captions",))


def _read_table(file: Path, folder: Path) -> Dataset:
    captions: dict[str, list[str]] = {}
    split_of: dict[str, str] = {}
    empty = 0
    for row in read_table(file, {"path": True, "caption": True, "split": False}):
        if not row["path"]:
            raise InputError(f'{file}: a row has no path; its caption is "{row["caption"]}"')
        key = PurePath(row["path"]).as_posix()
        split = split_name(row["split"] or "train")
        if split_of.setdefault(key, split) != split:
            raise InputError(f'{file}: "{key}" is in both {split_of[key]} and {split}')
        given = [row["caption"]] if isinstance(row["caption"], str) else row["caption"]
        kept = [caption.strip() for caption in given if caption.strip()]
        empty += len(given) - len(kept)
        captions.setdefault(key, []).extend(kept)
    if not captions:
        raise InputError(f"{file} has no rows; expected {EXPECTED}")
    records = tuple(Record(key, folder / key, tuple(captions[key]), split_of[key]) for key in captions)
    bare = sum(not record.captions for record in records)
    notes = [f"{empty} captions are empty and were left out"] if empty else []
    notes += [f"{bare} images have no caption"] if bare else []
    return Dataset(file.stem, folder, records, tuple(notes))


def _tables_of(folder: Path) -> list[Path]:
    return sorted(entry for entry in folder.iterdir() if entry.suffix.lower() in _TABLES and entry.is_file())


def _photos_of(folder: Path) -> Iterator[Path]:
    waiting = [folder]
    while waiting:
        for entry in waiting.pop().iterdir():
            if entry.name.startswith("."):
                continue
            if entry.is_dir():
                # A link to a folder may lead round in a circle.
                waiting += [] if entry.is_symlink() else [entry]
            elif entry.suffix.lower() in PHOTOS:
                yield entry
