"""Writing explanations: the file's ending says what becomes of them, .png or .html."""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from PIL import Image

from smlstm.errors import InputError
from smlstm.explain.average import AveragedMaps
from smlstm.explain.explanation import Explanation
from smlstm.explain.html import averages_page, comparison_page, gallery_page
from smlstm.explain.picture import averages, comparison, gallery
from smlstm.files import printable, whole_file

ENDINGS = (".png", ".html")


def write(explanations: Sequence[Explanation], path: str | os.PathLike[str]) -> None:
    """Write pairs as a picture or a page."""
    _write(Path(path), lambda: gallery(explanations), lambda: gallery_page(explanations))


def write_comparison(explanations: Mapping[str, Sequence[Explanation]], path: str | os.PathLike[str]) -> None:
    """Write the same pairs as several matchers see them, by the matchers' names."""
    _write(Path(path), lambda: comparison(explanations), lambda: comparison_page(explanations))


def write_averages(maps: Sequence[AveragedMaps], path: str | os.PathLike[str]) -> None:
    """Write averaged maps, a row a matcher."""
    _write(Path(path), lambda: averages(maps), lambda: averages_page(maps))


def check_ending(path: Path) -> None:
    """Refuse a file name that says neither picture nor page, and a folder that is not there."""
    if path.suffix.lower() not in ENDINGS:
        raise InputError(f"{path}: the name must end in {' or '.join(ENDINGS)}, which says what to write")
    if not path.parent.is_dir():
        raise InputError(f"{path}: there is no folder {path.parent}")


def _write(path: Path, picture: Callable[[], Image.Image], page: Callable[[], str]) -> None:
    check_ending(path)
    with whole_file(path, shared=True) as file:
        if path.suffix.lower() == ".png":
            picture().save(file, "PNG")
        else:
            file.write(printable(page()).encode())
