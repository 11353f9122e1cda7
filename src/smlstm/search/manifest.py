"""`library.json`: the version of a library's format, and the folders that it keeps in step with."""

import os
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

from smlstm.errors import InputError
from smlstm.files import write_whole
from smlstm.search.damage import DamagedLibrary, first_line
from smlstm.search.seals import pack_json, unpack_json

FORMAT = 2
NAME = "library.json"
COPY = "library.json.copy"
"""The same again, from which `repair` takes the folders should `library.json` be damaged."""


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


def read_manifest(library: Path, name: str = NAME) -> Manifest | None:
    """Read `library.json`; None where there is no library yet."""
    path = library / name
    try:
        content = unpack_json(path.read_bytes())
        found = Manifest(
            int(content["format"]),
            [Folder(str(each["path"]), tuple(map(str, each["exclude"]))) for each in content["folders"]],
        )
    except (FileNotFoundError, NotADirectoryError):
        if name == NAME and ((library / COPY).exists() or any(library.glob("*.lance/_versions/*.manifest"))):
            if path.exists():  # another process, or thread, has begun the library since we looked
                return read_manifest(library, name)
            # A new one in its place would forget what folders leave out.
            raise DamagedLibrary(path, "it is missing") from None
        return None
    except PermissionError:
        raise
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise DamagedLibrary(path, first_line(error)) from None
    if found.format > FORMAT:
        raise InputError(
            f"{library} was written by a newer smlstm (format {found.format}, this version reads {FORMAT}): "
            "upgrade smlstm, or choose another library with --library"
        )
    return found


def write_manifest(library: Path, manifest: Manifest) -> None:
    """Write `library.json` and its copy, each wholly or not at all."""
    library.mkdir(parents=True, exist_ok=True)
    folders = [{"path": each.path, "exclude": list(each.exclude)} for each in manifest.folders]
    for name in (NAME, COPY):
        try:
            write_whole(library / name, pack_json({"format": manifest.format, "folders": folders}), shared=True)
        except IsADirectoryError:
            raise DamagedLibrary(library / name, "it is a folder") from None
