"""`library.json`: the version of a library's format, and the folders that it keeps in step with."""

import json
import os
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from smlstm.errors import InputError

FORMAT = 2
NAME = "library.json"


@dataclass(frozen=True)
class Folder:
    """A folder of photos, and the patterns of what in it is left out."""

    path: str
    exclude: tuple[str, ...] = ()

    def excludes(self, path: str) -> bool:
        """Whether a file or folder is left out: its name or path within the folder, or a parent's, fits a pattern."""
        within = path[len(self.path) :].strip("/\\").replace("\\", "/")
        while within and self.exclude:
            parent, _, name = within.rpartition("/")
            if any(fnmatchcase(name, each) or fnmatchcase(within, each.strip("/")) for each in self.exclude):
                return True
            within = parent
        return False

    def holds(self, path: str) -> bool:
        """Whether a path is this folder or lies below it."""
        return path == self.path or path.startswith(self.path.rstrip(os.sep) + os.sep)


@dataclass
class Manifest:
    """What `library.json` says."""

    format: int = FORMAT
    folders: list[Folder] = field(default_factory=list)

    def folder_of(self, path: str) -> Folder | None:
        """The folder of the library that holds a path: the nearest, if they lie within each other."""
        return max((each for each in self.folders if each.holds(path)), key=lambda each: len(each.path), default=None)

    def add(self, path: str, exclude: tuple[str, ...] | None) -> None:
        """Take a folder in; None keeps the exclusions that it has, its own or those of a folder around it."""
        if exclude is not None or self.folder_of(path) is None:
            self.folders = [each for each in self.folders if each.path != path] + [Folder(path, exclude or ())]

    def excludes(self, path: str) -> bool:
        """Whether a file or folder is left out, by the patterns of the nearest folder."""
        folder = self.folder_of(path)
        return folder is not None and folder.excludes(path)

    @property
    def outermost(self) -> list[str]:
        """The folders that lie in no other."""
        paths = [each.path for each in self.folders]
        return [path for path in paths if not any(each.holds(path) and each.path != path for each in self.folders)]


def read_manifest(library: Path) -> Manifest | None:
    """Read `library.json`; None where there is none."""
    path = library / NAME
    try:
        content: Any = json.loads(path.read_bytes())
        found = Manifest(
            int(content["format"]),
            [Folder(str(each["path"]), tuple(map(str, each["exclude"]))) for each in content["folders"]],
        )
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise InputError(
            f"{path} is damaged ({error}): `smlstm library repair` writes a new one, then index your folders again"
        ) from None
    if found.format > FORMAT:
        raise InputError(
            f"{library} was written by a newer smlstm (format {found.format}, this version reads {FORMAT}): "
            "upgrade smlstm, or choose another library with --library"
        )
    return found


def write_manifest(library: Path, manifest: Manifest) -> None:
    """Write `library.json`, wholly or not at all."""
    library.mkdir(parents=True, exist_ok=True)
    folders = [{"path": each.path, "exclude": list(each.exclude)} for each in manifest.folders]
    part = library / f".{NAME}.{os.getpid()}.part"
    part.write_text(json.dumps({"format": manifest.format, "folders": folders}, indent=2) + "\n", encoding="utf-8")
    part.replace(library / NAME)
