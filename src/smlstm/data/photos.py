"""A folder of photos: which of its files, in any depth, are photos."""

import os
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path

from smlstm.data.header import is_store
from smlstm.photo_formats import SNIFFED_BYTES, sniff

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

    def note(unread: Path, error: OSError) -> None:
        notes.append(f"{unread} cannot be read and was left out: {error.strerror}")

    return (Path(entry.path) for entry in photo_entries(folder, note))


def photo_entries(
    folder: Path, unreadable: Callable[[Path, OSError], None], excluded: Callable[[str], bool] | None = None
) -> Iterator[os.DirEntry[str]]:
    """Give the photos below a folder as `find_photos` does, as entries whose size and time need no second look.

    `unreadable` is told of each folder that cannot be read, and of each file whose name does not say what it is; files
    and folders whose path is `excluded` are left out.
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
            unreadable(current, error)
            continue
        for entry in entries:
            if entry.name.startswith(".") or (excluded is not None and excluded(entry.path)):
                continue
            if _is_folder(entry):
                (links if entry.is_symlink() else folders).append(Path(entry.path))
                continue
            try:
                is_photo = _is_named_like_a_photo(entry)
            except OSError as error:  # it may be one, or have been
                unreadable(Path(entry.path), error)
                continue
            if is_photo:
                yield entry


def _is_named_like_a_photo(entry: os.DirEntry[str]) -> bool:
    suffix = os.path.splitext(entry.name)[1]  # noqa: PTH122 - of a hundred thousand names, where a Path is slow
    return suffix.lower() in SUFFIXES or (not suffix and _looks_like_a_photo(Path(entry.path)))


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def _looks_like_a_photo(path: Path) -> bool:
    if not path.is_file():  # opening a pipe would wait for its writer
        return False
    with path.open("rb") as file:
        return sniff(file.read(SNIFFED_BYTES)) is not None
