"""A folder of photos: which of its files, in any depth, are photos."""

import os
from collections import deque
from collections.abc import Iterator
from pathlib import Path

from smlstm.data.header import is_store
from smlstm.vision.formats import SNIFFED_BYTES, sniff

SUFFIXES = frozenset((
    ".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".avif", ".gif", ".bmp", ".tif", ".tiff", ".heic", ".heif",
    ".hif", ".dng", ".cr2", ".cr3", ".nef", ".nrw", ".arw", ".sr2", ".srf", ".orf", ".rw2", ".rwl", ".raf", ".pef",
    ".srw", ".3fr", ".fff", ".iiq", ".mef", ".mos", ".mrw", ".x3f", ".dcr", ".kdc", ".erf", ".gpr",
))  # fmt: skip


def find_photos(folder: Path, notes: list[str]) -> Iterator[Path]:
    """Give the photos below a folder, in no order; a folder that cannot be read is noted and the rest goes on.

    A photo goes by its suffix, or by its content where it has none. Links to folders are followed. Hidden files and
    feature stores are left out.
    """
    seen: set[tuple[int, int]] = set()
    # Links come last: a folder that is reached in two ways is named by its real path.
    folders, links = [folder], deque[Path]()
    while folders or links:
        current = folders.pop() if folders else links.popleft()
        try:
            status = current.stat()
            if (status.st_dev, status.st_ino) in seen or (current != folder and is_store(current)):
                continue
            seen.add((status.st_dev, status.st_ino))
            with os.scandir(current) as listing:
                entries = sorted(listing, key=lambda entry: entry.name)
        except OSError as error:
            if current == folder:
                raise
            notes.append(f"{current} cannot be read and was left out: {error.strerror}")
            continue
        for entry in entries:
            if entry.name.startswith("."):
                continue
            path = current / entry.name
            if _is_folder(entry):
                (links if entry.is_symlink() else folders).append(path)
            elif path.suffix.lower() in SUFFIXES or (not path.suffix and _looks_like_a_photo(path)):
                yield path


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def _looks_like_a_photo(path: Path) -> bool:
    try:
        if not path.is_file():  # opening a pipe would wait for its writer
            return False
        with path.open("rb") as file:
            return sniff(file.read(SNIFFED_BYTES)) is not None
    except OSError:
        return False
