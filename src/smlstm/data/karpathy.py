"""Karpathy's splits: `dataset_flickr8k.json`, `dataset_flickr30k.json`, `dataset_coco.json`, or any file like them.

Each image has `filename`, `filepath` (COCO only: its folder), `split` (`restval` is training data) and
`sentences`, whose `raw` is the caption as written.
"""

from pathlib import Path

from smlstm.data.files import image_folder, read_json
from smlstm.data.records import Dataset, Record, split_name
from smlstm.errors import InputError

EXPECTED = "Karpathy's splits: dataset_flickr8k.json, dataset_flickr30k.json or dataset_coco.json"
SCHEMES = ("karpathy",)
NAMES = ("dataset_flickr8k.json", "dataset_flickr30k.json", "dataset_coco.json")
_HEAD_BYTES = 2**16
_FOLDERS = (
    "Images",
    "images",
    "Flicker8k_Dataset",
    "Flickr8k_Dataset",
    "flickr30k-images",
    "flickr30k_images",
)


def recognise(path: Path) -> bool:
    """Whether a path is one of Karpathy's files, or a folder that has one."""
    return _looks_right(path) if path.is_file() else bool(_files_of(path))


def _files_of(folder: Path) -> list[Path]:
    """Find Karpathy's files by their names, or else by what they hold."""
    named = [folder / name for name in NAMES if (folder / name).exists()]
    return named or sorted(file for file in folder.glob("*.json") if _looks_right(file))


def _looks_right(file: Path) -> bool:
    """Judge a file by its name, or by its beginning: the whole is hundreds of megabytes."""
    if file.suffix.lower() != ".json" or not file.is_file():
        return False
    if file.name in NAMES:
        return True
    try:
        with file.open("rb") as opened:
            head = opened.read(_HEAD_BYTES)
    except OSError:
        return False
    return all(word in head for word in (b'"sentences"', b'"filename"', b'"split"'))


def read(path: Path, scheme: str | None = None, *, root: Path | None = None) -> Dataset:
    """Read one of Karpathy's files; images are looked for beside it, or under `root`."""
    file = path
    if path.is_dir():
        found = _files_of(path)
        if len(found) != 1:
            names = ", ".join(each.name for each in found) or "none"
            raise InputError(f"{path} must have one of {', '.join(NAMES)}; it has {names}: name the file itself")
        file = found[0]
    content = read_json(file)
    if not isinstance(content, dict) or not isinstance(content.get("images"), list):
        raise InputError(f'{file} has no "images" list: is this one of Karpathy\'s files?')
    photos = _Photos(image_folder(root or file.parent, _FOLDERS))
    records: list[Record] = []
    bare: list[str] = []
    for number, image in enumerate(content["images"]):
        try:
            name = str(image["filename"])
            split = split_name(str(image["split"]), f'{file}, image {number} ("{name}")')
            captions = tuple(str(sentence["raw"]).strip() for sentence in image["sentences"])
            photo = photos.find(name, str(image.get("filepath") or ""))
        except (KeyError, TypeError, AttributeError) as error:
            raise InputError(f"{file}: image {number} needs filename, split and sentences[].raw: {error}") from None
        if captions:
            records.append(Record(photo.name, photo, captions, split))
        else:
            bare.append(name)
    notes = [f'{len(bare)} images have no caption and were left out, the first is "{bare[0]}"'] if bare else []
    name = str(content.get("dataset") or file.stem.removeprefix("dataset_"))
    return Dataset(name, root or file.parent, tuple(records), tuple(notes))


class _Photos:
    """Where the photos are: in the folder of COCO 2014 that the file names, or in those of the 2017 layout."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        years = [home / part for home in (folder, folder.parent) for part in ("train2017", "val2017")]
        self._later = [{entry.name: entry for entry in year.iterdir()} for year in years if year.is_dir()]

    def find(self, name: str, part: str) -> Path:
        """Find a photo; if it is nowhere, where it should have been."""
        expected = self._folder / part / name
        if part and self._later and not expected.parent.is_dir():
            number = name.rpartition("_")[2]
            return next((year[number] for year in self._later if number in year), expected)
        return expected
