"""Networks converted for a runtime, kept in the user's cache, since converting takes seconds."""

import inspect
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from smlstm.files import fingerprint
from smlstm.user_folders import cache_folder
from smlstm.vision.backbones.base import Backbone

_CHECKSUMS = "sha256.txt"


def converted(backbone: Backbone, form: str, convert: Callable[[Path], None]) -> Path:
    """Return a folder that `convert` has filled for this backbone, now or in an earlier run.

    The folder is named after all that the result depends on. Its files' hashes are kept beside them, so that
    one which was damaged is made again rather than run.
    """
    made = [form, backbone.name, str(backbone.input_size), backbone.weights_sha256, _source_of(backbone)]
    if backbone.network.below is not None:
        made.append(f"below {backbone.network.below}")
    key = fingerprint(["\n".join(made)])[:24]
    try:
        parent = cache_folder() / "networks"
        folder = parent / f"{backbone.name.replace(':', '-').replace('/', '-')}-{backbone.input_size}-{key}"
        if _is_whole(folder):
            return folder
        parent.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix="unfinished-", dir=parent))
    except (OSError, RuntimeError):
        # No home, or a read-only one: convert in every run.
        folder, work = None, Path(tempfile.mkdtemp(prefix="smlstm-"))
    try:
        convert(work)
        (work / _CHECKSUMS).write_text(_checksums(work))
    except BaseException:
        shutil.rmtree(work, ignore_errors=True)
        raise
    if folder is None:
        return work
    shutil.rmtree(folder, ignore_errors=True)
    try:
        work.rename(folder)
    except OSError:
        # Another process was first; its result is as good.
        if not _is_whole(folder):
            return work
        shutil.rmtree(work, ignore_errors=True)
    return folder


def _source_of(backbone: Backbone) -> str:
    module = inspect.getmodule(type(backbone.network))
    return inspect.getsource(module) if module is not None else ""


def _checksums(folder: Path) -> str:
    files = sorted(path for path in folder.iterdir() if path.name != _CHECKSUMS)
    return "".join(f"{fingerprint([path])}  {path.name}\n" for path in files)


def _is_whole(folder: Path) -> bool:
    try:
        return (folder / _CHECKSUMS).read_text() == _checksums(folder)
    except OSError:
        return False
