"""The header of a feature store: which features it holds, in which version of the format."""

import json
import zlib
from pathlib import Path
from typing import Any

from smlstm.data.features import FeatureSpec
from smlstm.errors import InputError
from smlstm.files import sync_folder, write_whole

_NAME = "smlstm-features"
_VERSION = 1
HEADER, RECORDS, JOURNAL, LOCK = "store.json", "records.f16", "journal.log", "writer.lock"
# The photos that `smlstm extract` could not use; no part of the store itself.
SKIPPED = "skipped.jsonl"
_FILES = {HEADER, HEADER + ".part", RECORDS, JOURNAL, LOCK, SKIPPED}


def is_store(path: Path) -> bool:
    """Whether a folder is a feature store, whole or not; others may have a store.json too."""
    header = path / HEADER
    try:
        if not header.is_file():
            return False
        if (path / JOURNAL).exists() or (path / RECORDS).exists():
            return True
        with header.open(encoding="utf-8", errors="replace") as file:
            return _NAME in file.read(1000)
    except OSError:
        return False


def make_folder(path: Path) -> None:
    """Create the folder of a store; a folder of other things is refused."""
    if path.exists() and not path.is_dir():
        raise InputError(f"{path} is a file: a feature store is a folder")
    path.mkdir(parents=True, exist_ok=True)
    if not (path / HEADER).exists():
        others = sorted(entry.name for entry in path.iterdir() if entry.name not in _FILES)
        if others:
            raise InputError(f'{path} is no feature store and is not empty (it holds "{others[0]}")')
        if (path / JOURNAL).exists():
            raise InputError(f"{path} has a {JOURNAL} but no {HEADER}: it is not whole")


def write_header(path: Path, spec: FeatureSpec) -> None:
    """Write the header wholly or not at all."""
    fields = spec.to_dict()
    content = {"format": _NAME, "version": _VERSION, "spec": fields, "crc32": _spec_checksum(fields)}
    write_whole(path / HEADER, json.dumps(content, indent=2), durable=True)
    sync_folder(path.absolute().parent)


def read_header(path: Path) -> tuple[FeatureSpec, int]:
    """Read the header: the spec, and the checksum from which the journal runs on."""
    file = path / HEADER
    if not file.is_file():
        raise InputError(f"{path} is no feature store: it has no {HEADER}")
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(f"{file} is damaged: {error}") from None
    if not isinstance(content, dict) or content.get("format") != _NAME:
        raise InputError(f'{file} does not say "format": "{_NAME}": is this a feature store?')
    if content.get("version") != _VERSION:
        raise InputError(
            f"{file} is of version {content.get('version')!r}, this program reads {_VERSION}: "
            "use the smlstm that wrote it, or extract again"
        )
    fields = content.get("spec")
    if content.get("crc32") != _spec_checksum(fields):
        raise InputError(f"{file} is damaged: its checksum does not fit")
    return FeatureSpec.from_dict(fields), content["crc32"]


def _spec_checksum(fields: Any) -> int:
    return zlib.crc32(json.dumps(fields, sort_keys=True).encode("ascii"))
