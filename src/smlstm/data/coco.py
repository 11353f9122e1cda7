"""COCO captions, as published in 2014 and in 2017.

    annotations/captions_train2017.json  train2017/000000000009.jpg
    annotations/captions_val2014.json    val2014/COCO_val2014_000000000042.jpg

Schemes: `official` (train2017/train2014 is train, val is dev), `karpathy` (`dataset_coco.json` beside the
annotations) and `kiros` (lists of image names: `coco_train.txt` or `train.txt`, with dev and test likewise).
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

from smlstm.data import karpathy
from smlstm.data.files import first_existing, read_json, read_split_lists
from smlstm.data.records import Dataset, Record
from smlstm.errors import InputError

EXPECTED = "COCO: annotations/captions_train2017.json (or 2014, val) with the folders train2017, val2017"
SCHEMES = ("official", "karpathy", "kiros")
_PARTS = {
    "train2017": "train",
    "train2014": "train",
    "val2017": "dev",
    "val2014": "dev",
}
_KARPATHY = ("dataset_coco.json", "annotations/dataset_coco.json")


def recognise(path: Path) -> bool:
    """Whether a folder has COCO's caption files, or a file is one."""
    if path.is_file():
        return path.suffix == ".json" and path.name.startswith("captions_") and not karpathy.recognise(path)
    return bool(_caption_files(path))


def read(root: Path, scheme: str | None = None) -> Dataset:
    """Read a COCO folder; without a scheme, its own parts decide (train is train, val is dev)."""
    if scheme == "karpathy":
        listing = first_existing(root, _KARPATHY)
        if listing is None:
            raise InputError(f"{root} has no {_KARPATHY[0]}, which holds Karpathy's splits")
        return karpathy.read(listing, root=root)
    files = [root] if root.is_file() else _caption_files(root)
    if not files:
        raise InputError(f"{root} has no annotations/captions_*.json; expected {EXPECTED}")
    folder = files[0].parent.parent if files[0].parent.name == "annotations" else files[0].parent
    records: dict[str, Record] = {}
    notes: list[str] = []
    for file in files:
        part = file.stem.removeprefix("captions_")
        split = _PARTS.get(part, "test" if part.startswith("test") else "train")
        for record in _read_captions(file, _images_of(folder, part), split, notes):
            if records.setdefault(record.key, record) is not record:
                raise InputError(
                    f'{root}: "{record.key}" is in two caption files: keep either the 2014 or the 2017 ones'
                )
    if scheme == "kiros":
        return _by_lists(root, folder, records, notes)
    return Dataset("coco", root, tuple(records.values()), tuple(notes))


def _caption_files(root: Path) -> list[Path]:
    """Find caption files, those of 2017 only if both years are there: they share their photos."""
    folder = root / "annotations" if (root / "annotations").is_dir() else root
    years = [[folder / f"captions_{part}.json" for part in _PARTS if part.endswith(y)] for y in ("2017", "2014")]
    found = [[file for file in year if file.exists()] for year in years]
    return found[0] or found[1]


def _images_of(folder: Path, part: str) -> Path:
    return next((path for path in (folder / part, folder / "images" / part) if path.is_dir()), folder / part)


def _read_captions(file: Path, images: Path, split: str, notes: list[str]) -> list[Record]:
    content = read_json(file)
    for name in ("images", "annotations"):
        if not isinstance(content, dict) or not isinstance(content.get(name), list):
            raise InputError(f'{file} has no "{name}" list: is this a COCO captions file?')
    captions: dict[Any, list[str]] = {}
    try:
        for image in content["images"]:
            captions[image["id"]] = []
        for note in content["annotations"]:
            captions[note["image_id"]].append(str(note["caption"]).strip())
        names = [(image["id"], str(image["file_name"])) for image in content["images"]]
    except (KeyError, TypeError) as error:
        raise InputError(
            f"{file}: an image needs id and file_name, an annotation caption and image_id "
            f"(of a listed image); stopped at {error}"
        ) from None
    bare = [name for number, name in names if not captions[number]]
    if bare:
        notes.append(f'{len(bare)} images of {file.name} have no caption and were left out, the first is "{bare[0]}"')
    return [Record(name, images / name, tuple(captions[number]), split) for number, name in names if captions[number]]


def _by_lists(root: Path, folder: Path, records: dict[str, Record], notes: list[str]) -> Dataset:
    lists = read_split_lists(folder, ("coco_", "")) or read_split_lists(folder / "annotations", ("coco_", ""))
    if not lists:
        raise InputError(f"{root} has none of Kiros' lists coco_train.txt, coco_dev.txt, coco_test.txt")
    chosen: list[Record] = []
    absent: list[str] = []
    listed: set[str] = set()
    for split, names in lists.items():
        for name in names:
            # Lists of 2014 names fit the 2017 layout too: the number at the end is the same photo's.
            short = Path(name).name.rpartition("_")[2]
            found = records.get(Path(name).name) or records.get(short) or records.get(f"{short:0>12}.jpg")
            if found is None:
                absent.append(name)
            else:
                chosen.append(replace(found, split=split))
                listed.add(found.key)
    if absent:
        notes.append(f'{len(absent)} listed images have no caption and were left out, the first is "{absent[0]}"')
    unlisted = [key for key in records if key not in listed]
    if unlisted:
        notes.append(f'{len(unlisted)} images with captions are in no split, the first is "{unlisted[0]}"')
    return Dataset("coco", root, tuple(chosen), tuple(notes))
