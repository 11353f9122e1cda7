"""Tables of captions, CSV or JSONL, whose columns go by the names that people give them."""

import csv
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from smlstm.data.files import read_lines
from smlstm.errors import InputError

_SYNONYMS = {
    "path": ("path", "image", "image_path", "image_name", "file", "file_name", "filename", "filepath", "photo"),
    "caption": ("caption", "captions", "sentence", "text", "comment"),
    "split": ("split", "set", "partition"),
}
_NEEDED = ("path", "caption")
# In the results.csv of Flickr30k one row lacks a delimiter: `2199200615.jpg| 4   A dog runs across the grass .`
_NUMBER_AND_CAPTION = re.compile(r"\s*(\d+)\s+(\S.*)")


@dataclass(frozen=True)
class Row:
    """One row: an image, its captions (several only in JSONL), its split (empty if there is none)."""

    line: int
    path: str
    captions: list[str]
    split: str


def read_table(file: Path, notes: list[str]) -> Iterator[Row]:
    """Give the rows of a table; rows that are too short are left out and noted."""
    return _read_jsonl(file) if _is_jsonl(file) else _read_csv(file, notes)


def read_captions(file: Path, notes: list[str]) -> dict[str, list[str]]:
    """Read the captions of each image of a table, in the order of the file."""
    captions: dict[str, list[str]] = {}
    for row in read_table(file, notes):
        captions.setdefault(row.path, []).extend(row.captions)
    return captions


def why_no_captions(file: Path) -> str | None:
    """Say why a file is not a table of paths and captions, judged by its first line; None if it is one."""
    try:
        if _is_jsonl(file):
            if next(_read_jsonl(file), None) is None:
                return f"{file} has no rows"
        else:
            _columns(_cells(file)[0], file)
    except InputError as error:
        return str(error)
    return None


def _is_jsonl(file: Path) -> bool:
    return file.suffix.lower() in (".jsonl", ".ndjson")


def _cells(file: Path) -> tuple[Iterator[list[str]], Any]:
    """Give the rows of a CSV file, and the reader, which knows its line."""
    first = next(read_lines(file), "")
    delimiter = max("|,;\t", key=first.count)
    lines = (line + "\n" for line in read_lines(file))
    # Files parted by | are not quoted: a caption may begin with a quotation mark.
    reader = csv.reader(lines, delimiter=delimiter, quoting=csv.QUOTE_NONE if delimiter == "|" else csv.QUOTE_MINIMAL)

    def rows() -> Iterator[list[str]]:
        try:
            yield from reader
        except csv.Error as error:
            raise InputError(f"{file}, line {reader.line_num}: {error}") from None

    return rows(), reader


def _columns(rows: Iterator[list[str]], file: Path) -> tuple[list[str], dict[str, int]]:
    """Read the first line: all names, and the place of each column that is known."""
    header = next(rows, [])
    names = [_plain(name) for name in header]
    places = {}
    for wanted, synonyms in _SYNONYMS.items():
        found = next((name for name in synonyms if name in names), None)
        if found is not None:
            places[wanted] = names.index(found)
        elif wanted in _NEEDED:
            raise InputError(
                f'{file} has no "{wanted}" column: its first line must name the columns path, caption and, if there '
                f"are splits, split; it names {', '.join(name.strip() for name in header) or 'nothing'}. "
                f'Also taken for "{wanted}": {", ".join(synonyms[1:])}'
            )
    return names, places


def _read_csv(file: Path, notes: list[str]) -> Iterator[Row]:
    rows, reader = _cells(file)
    header, places = _columns(rows, file)
    short: list[int] = []
    for cells in rows:
        if not any(cell.strip() for cell in cells):
            continue
        whole = _mended(cells, header)
        if len(whole) <= max(places[wanted] for wanted in _NEEDED):
            short.append(reader.line_num)
            continue
        found = {wanted: whole[place].strip() for wanted, place in places.items() if place < len(whole)}
        yield Row(reader.line_num, found["path"], [found["caption"]], found.get("split", ""))
    if short:
        notes.append(
            f"{len(short)} rows of {file.name} have fewer columns than its first line and were left out, "
            f"the first is line {short[0]}"
        )


def _mended(cells: list[str], header: list[str]) -> list[str]:
    """Put in the delimiter that is missing between a caption's number and the caption."""
    if len(cells) == len(header) - 1 and header[-2].endswith("number"):
        both = _NUMBER_AND_CAPTION.fullmatch(cells[-1])
        if both:
            return [*cells[:-1], *both.groups()]
    return cells


def _plain(name: str) -> str:
    """Bring a column's name into one spelling: `Image Name` is image_name."""
    return name.strip().lower().replace(" ", "_").replace("-", "_")


def _read_jsonl(file: Path) -> Iterator[Row]:
    for number, line in enumerate(read_lines(file), start=1):
        if not line.strip():
            continue
        try:
            content = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{file}, line {number} is not JSON: {error}") from None
        if not isinstance(content, dict):
            raise InputError(f'{file}, line {number}: expected {{"path": ..., "caption": ...}}, found {line:.80}')
        values = {_plain(name): value for name, value in content.items()}
        path, caption, split = (_value(wanted, values, f"{file}, line {number}") for wanted in _SYNONYMS)
        yield Row(number, path, [caption] if isinstance(caption, str) else caption, split)


def _value(wanted: str, values: dict[str, Any], where: str) -> Any:
    """Find the text of a column (a list of texts will do for captions); an absent split is an empty one."""
    there = [name for name in _SYNONYMS[wanted] if name in values]
    name = next((name for name in there if values[name] is not None), None)
    if name is None:
        if wanted not in _NEEDED:
            return ""
        if there:
            raise InputError(f'{where}: "{there[0]}" is null, not text')
        raise InputError(
            f'{where} has no "{wanted}"; it has {", ".join(values) or "nothing"}. '
            f'Also taken for "{wanted}": {", ".join(_SYNONYMS[wanted][1:])}'
        )
    value = values[name]
    several = wanted == "caption" and isinstance(value, list) and all(isinstance(each, str) for each in value)
    if not isinstance(value, str) and not several:
        raise InputError(f'{where}: "{name}" is {value!r:.80}, not text')
    return value
