"""Files that are written wholly or not at all, fingerprints of what they hold, and their names as text."""

import hashlib
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

_BLOCK = 1 << 20
Part = str | bytes | memoryview | Path
"""What a fingerprint is made of; of a path, the file's bytes."""


@contextmanager
def whole_file(path: Path, *, durable: bool = False, shared: bool = False) -> Iterator[BinaryIO]:
    """A file to write, which takes its name when all of it is written; after a failure, what was there stays.

    `durable` forces it to the disk; `shared` lets several processes write the same file at once: the last one wins.
    """
    part = path.with_name(f".{path.name}.{os.getpid()}.part" if shared else f"{path.name}.part")
    try:
        with part.open("wb") as file:
            yield file
            if durable:
                file.flush()
                os.fsync(file.fileno())
        part.replace(path)
    except BaseException:
        with suppress(OSError):
            part.unlink()
        raise
    if durable:
        sync_folder(path.parent)


def write_whole(path: Path, content: str | bytes, *, durable: bool = False, shared: bool = False) -> None:
    """Write a file wholly or not at all; see `whole_file`."""
    with whole_file(path, durable=durable, shared=shared) as file:
        file.write(content.encode() if isinstance(content, str) else content)


def sync_folder(path: Path) -> None:
    """Force a folder's entries to the disk; systems that cannot open a folder do not need it."""
    if hasattr(os, "O_DIRECTORY"):
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def fingerprint(parts: Iterable[Part], size: int | None = None) -> str:
    """A hash of parts one behind the other, in hexadecimal digits: SHA-256, or BLAKE2b where a size in bytes is given.

    Both are here to stay: feature stores, saved matrices and libraries on people's disks are known by them.
    """
    digest = hashlib.sha256() if size is None else hashlib.blake2b(digest_size=size)
    for block in _blocks(parts):
        digest.update(block)
    return digest.hexdigest()


def _blocks(parts: Iterable[Part]) -> Iterator[bytes | memoryview]:
    for part in parts:
        if isinstance(part, Path):
            with part.open("rb") as file:
                while block := file.read(_BLOCK):
                    yield block
        else:
            yield part.encode() if isinstance(part, str) else part


def printable(text: object) -> str:
    """A name or message with what is no valid Unicode written as an escape: terminals and JSON refuse it."""
    return str(text).encode("utf-8", "backslashreplace").decode("utf-8")
