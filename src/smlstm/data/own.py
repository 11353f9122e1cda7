"""Anyone's own data: a CSV or JSONL of path, caption and split, or just a folder of photos.

Several rows of one path are several captions of it. Paths are relative to the file's folder. Without a split
column everything is training data. A folder of photos has no captions: it can be extracted and searched.
"""

from pathlib import Path, PurePath

from smlstm.data.caption_table import read_table, why_no_captions
from smlstm.data.photos import find_photos
from smlstm.data.records import Dataset, Record, split_name
from smlstm.errors import InputError

EXPECTED = "your own: a .csv, .tsv or .jsonl with path, caption and (if you have them) split, or a folder of photos"
SCHEMES: tuple[str, ...] = ()
_TABLES = frozenset((".csv", ".tsv", ".jsonl", ".ndjson"))


def recognise(path: Path) -> bool:
    """Whether a path is a table of captions, or a folder with one or with photos."""
    if path.is_file():
        return _is_table(path)
    return bool(_tables_of(path)) or any(True for _ in find_photos(path, []))


def read(path: Path, scheme: str | None = None) -> Dataset:
    """Read a table of captions, or the only one of a folder, or a folder of photos."""
    if path.is_file():
        return _read_table(path, path.parent)
    found = {table: why_no_captions(table) for table in _tables_of(path)}
    tables = [table for table, reason in found.items() if reason is None]
    notes = [f"{table.name} was left out: {reason}" for table, reason in found.items() if reason is not None]
    if not tables:
        photos = sorted(find_photos(path, notes))
        if photos:
            records = tuple(Record(photo.relative_to(path).as_posix(), photo, (), "train") for photo in photos)
            return Dataset("photos", path, records, ("a folder of photos: there are no captions", *notes))
        tables, notes = list(found), []  # reading it says what is wrong with it
    if len(tables) > 1:
        raise InputError(f"{path} has {len(tables)} tables ({', '.join(t.name for t in tables)}): name one of them")
    return _read_table(tables[0], path, notes)


def _read_table(file: Path, folder: Path, notes: list[str] | None = None) -> Dataset:
    notes = [] if notes is None else notes
    captions: dict[str, list[str]] = {}
    split_of: dict[str, str] = {}
    for row in read_table(file, notes):
        where = f"{file}, line {row.line}"
        if not row.path:
            raise InputError(f'{where}: there is no path; the caption is "{" / ".join(row.captions)}"')
        key = PurePath(row.path).as_posix()
        split = split_name(row.split or "train", where)
        if split_of.setdefault(key, split) != split:
            raise InputError(f'{where}: "{key}" is in both {split_of[key]} and {split}')
        captions.setdefault(key, []).extend(row.captions)
    if not captions:
        raise InputError(f"{file} has no rows; expected {EXPECTED}")
    records = tuple(Record(key, folder / key, tuple(captions[key]), split_of[key]) for key in captions)
    return Dataset(file.stem, folder, records, tuple(notes))


def _is_table(file: Path) -> bool:
    # Kaggle's name for a table of captions; as a layout of its own it was looked at before.
    return file.suffix.lower() in _TABLES or file.name == "captions.txt"


def _tables_of(folder: Path) -> list[Path]:
    return sorted(entry for entry in folder.iterdir() if _is_table(entry) and entry.is_file())
