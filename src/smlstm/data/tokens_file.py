"""The token files of Flickr8k and Flickr30k: one caption a line, `image.jpg#0<TAB>caption`."""

from pathlib import Path

from smlstm.data.files import read_lines
from smlstm.errors import InputError


def read_token_file(path: Path) -> dict[str, list[str]]:
    """Read the captions of each image, in the order of their numbers: ratings name a caption by its number."""
    captions: dict[str, list[tuple[int, str]]] = {}
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip():
            continue
        image, tab, caption = line.partition("\t")
        name, hash_sign, place = image.rpartition("#")
        if not (tab and hash_sign and name):
            raise InputError(f'{path}, line {number}: expected "image.jpg#0<TAB>caption", found {line[:80]!r}')
        found = captions.setdefault(name.strip(), [])
        found.append((int(place) if place.strip().isdecimal() else len(found), caption.strip()))
    if not captions:
        raise InputError(f"{path} has no captions")
    return {
        name: [caption for _, caption in sorted(found, key=lambda each: each[0])] for name, found in captions.items()
    }
