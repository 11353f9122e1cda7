"""Tables of captions, CSV or JSONL, whose columns go by the names that people give them."""

import csv
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from smlstm.data.files import read_lines
from smlstm.errors import InputError

_SYNONYMS = {
    "path": ("path", "image", "image_path", "image_name", "file", "file_name", "filename", "filepath", "photo"),
    "caption": ("caption", "captions", "sentence", "text", "comment"),
    "split": ("split", "set", "partition"),
}


def read_table(file: Path, columns: Mapping[str, bool]) -> Iterator[dict[str, Any]]:
    """Give the rows with the wanted columns (name: whether it must be there) under our own names.

    An absent optional column is an empty string. A JSONL row may have a list of captions.
    """
    if file.suffix.lower() in (".jsonl", ".ndjson"):
        yield from _read_jsonl(file, columns)
    else:
        yield from _read_csv(file, columns)


def _read_csv(file: Path, columns: Mapping[str, bool]) -> Iterator[dict[str, Any]]:
    first = next(read_lines(file), "")
    delimiter = max("|,;\t", key=first.count)
    lines = (line + "\n" for line in read_lines(file))
    if delimiter == "|":
        # Such files are not quoted: a caption may begin with a quotation mark.
        rows = csv.reader(lines, delimiter=delimiter, quoting=csv.QUOTE_NONE)
    else:
        rows = csv.reader(lines, delimiter=delimiter)
    try:
        header = [name.strip() for name in next(rows, [])]
        places = {wanted: _find(wanted, header, must, file) for wanted, must in columns.items()}
        for row in rows:
            if not any(cell.strip() for cell in row):
                continue
            needed = max(place for wanted, place in places.items() if place is not None and columns[wanted])
            if len(row) <= needed:
                raise InputError(
                    f"{file}, line {rows.line_num}: {len(row)} columns, the header has {len(header)}: {row!r:.120}"
                )
            yield {
                wanted: row[place].strip() if place is not None and place < len(row) else ""
                for wanted, place in places.items()
            }
    except csv.Error as error:
        raise InputError(f"{file}, line {rows.line_num}: {error}") from None


def _find(wanted: str, header: list[str], must: bool, file: Path) -> int | None:
    lowered = [name.lower() for name in header]
    for name in _SYNONYMS[wanted]:
        if name in lowered:
            return lowered.index(name)
    if must:
        raise InputError(
            f'{file} has no "{wanted}" column: its first line must name the columns path, caption and, if there '
            f"are splits, split; it names {', '.join(header) or 'nothing'}"
        )
    return None


def _read_jsonl(file: Path, columns: Mapping[str, bool]) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(read_lines(file), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{file}, line {number} is not JSON: {error}") from None
        if not isinstance(row, dict):
            raise InputError(f'{file}, line {number}: expected {{"path": ..., "caption": ...}}, found {line:.80}')
        result: dict[str, Any] = {}
        for wanted, must in columns.items():
            name = next((name for name in _SYNONYMS[wanted] if row.get(name) is not None), None)
            if name is None and must:
                raise InputError(f'{file}, line {number} has no "{wanted}"; it has {", ".join(map(str, row))}')
            value = row[name] if name is not None else ""
            if not isinstance(value, str) and not (wanted == "caption" and _is_list_of_strings(value)):
                raise InputError(f'{file}, line {number}: "{name}" is {value!r:.80}, not text')
            result[wanted] = value
        yield result


def _is_list_of_strings(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)
