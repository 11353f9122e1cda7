"""COCO-QA (Ren et al. 2015): questions and answers that were made of captions by rules, and are sentences again here.

    annotations/cocoqa.tsv     image_id, type (0 object, 1 number, 2 colour, 3 place), question, answer
    train2017/000000000009.jpg

| type | question, answer | sentence |
|---|---|---|
| object | what stands atop the laptop computer, kitten | a kitten stands atop the laptop computer |
| object | what is the man cutting with a knife, apple | the man is cutting an apple with a knife |
| number | how many zebras graze in a field, two | two zebras graze in a field |
| colour | what is the color of the bird, yellow | the yellow bird |
| place | where is the cat laying down, sink | the cat laying down in the sink |

Where COCO's own captions lie beside it (coco.py), their photos are left out, whatever the year and split: a photo must
not meet itself as another, and dev not be learned from. So are questions that fit no rule. All is train.
"""

import re
from pathlib import Path

from smlstm.data.files import read_json, read_lines
from smlstm.data.records import Dataset, Record
from smlstm.errors import InputError

EXPECTED = "COCO-QA: a file cocoqa.tsv with the columns image_id, type, question, answer, beside the photos' folder"
SCHEMES: tuple[str, ...] = ()
_COLUMNS = "image_id\ttype\tquestion\tanswer"
_OBJECT, _NUMBER, _COLOUR, _PLACE = _TYPES = tuple("0123")
_DETERMINERS = frozenset(("a", "an", "the", "this", "that", "these", "those", "some", "two", "three", "four", "many"))
_VOWELS = tuple("aeiou")
_TURNED = re.compile(r"what (?:(is|are|was|were)|does|do|did) (.+)")
_OF_COLOUR = re.compile(r"what is the colou?r of (?:the )?(.+)")
_NUMBER_AT_END = re.compile(r"(\d+)\.jpg$")
_THINGS = frozenset(
    ("awning", "building", "ceiling", "clothing", "king", "painting", "railing", "ring", "wedding", "wing")
)
"""Words in -ing that name something."""
_WHERE = re.compile(r"where (?:is|are|was|were|does|do|did) (.+)")


def recognise(path: Path) -> bool:
    """Whether a file has COCO-QA's columns."""
    return path.is_file() and path.suffix == ".tsv" and next(read_lines(path), "").strip() == _COLUMNS


def read(path: Path, scheme: str | None = None) -> Dataset:
    """Read the sentences of each photo that has no captions of its own."""
    captioned = {number for file in _caption_files(path.parent) for number in _photos(file)}
    sentences: dict[int, list[str]] = {}
    unread = 0
    for number, line in enumerate(read_lines(path), start=1):
        row = line.split("\t")
        if number == 1 or not line.strip():
            continue
        if len(row) != 4 or not row[0].isdecimal() or row[1] not in _TYPES:
            raise InputError(
                f"{path}, line {number}: expected a photo's number, a type from 0 to 3, a question and an answer, "
                f"found {line[:80]!r}"
            )
        said = statement(row[1], " ".join(row[2].split()), row[3])
        unread += said is None
        known = sentences.setdefault(int(row[0]), [])
        if said is not None and said not in known:
            known.append(said)
    folder = (path.parent.parent if path.parent.name == "annotations" else path.parent) / "train2017"
    kept = {f"{number:012}.jpg": tuple(said) for number, said in sentences.items() if said and number not in captioned}
    records = tuple(Record(name, folder / name, said, "train") for name, said in kept.items())
    notes = []
    if known_elsewhere := len(captioned.intersection(sentences)):
        notes.append(f"{known_elsewhere} photos have captions of their own and were left out")
    if unread:
        notes.append(f"{unread} questions are no sentence with their answer and were left out")
    return Dataset("coco-qa", path, records, tuple(notes))


def statement(kind: str, question: str, answer: str) -> str | None:
    """What a question and its answer say together; None where no rule makes a sentence of them.

    >>> statement("0", "what stands atop the laptop computer", "kitten")
    'a kitten stands atop the laptop computer'
    """
    if kind == _NUMBER:
        return question.replace("how many", answer, 1) if "how many" in question else None
    if kind == _OBJECT:
        return _of_object(question, answer)
    if kind == _COLOUR:
        found = _OF_COLOUR.fullmatch(question)
        return f"the {answer} {found[1]}" if found else None
    found = _WHERE.fullmatch(question)
    return f"{found[1]} in the {answer}" if found else None


def _of_object(question: str, answer: str) -> str | None:
    found = _TURNED.fullmatch(question)
    if found is None or (found[1] and found[2].split()[0] not in _DETERMINERS):
        before, what, after = f" {question} ".partition(" what ")
        return " ".join(f"{before} {_named(answer, before)} {after}".split()) if what else None
    words, thing = found[2].split(), _named(answer, "")
    doing = next((place for place, word in enumerate(words) if word.endswith("ing") and word not in _THINGS), None)
    if not found[1] or doing is None:
        return f"{found[2]} {thing}"
    return " ".join([*words[:doing], found[1], words[doing], thing, *words[doing + 1 :]])


def _named(answer: str, before: str) -> str:
    """With an article, where one is wanted."""
    if answer.endswith("s") or not _DETERMINERS.isdisjoint(before.split()[-1:]):
        return answer
    return f"an {answer}" if answer.startswith(_VOWELS) else f"a {answer}"


def _caption_files(folder: Path) -> list[Path]:
    """Where COCO's own captions may lie, beside the questions or one folder above."""
    return [*sorted(folder.glob("captions_*.json")), *(each / "dataset_coco.json" for each in (folder, folder.parent))]


def _photos(captions: Path) -> set[int]:
    """The numbers of the photos that a file has captions of, as their names end."""
    content = read_json(captions) if captions.exists() else {}
    images = content.get("images") if isinstance(content, dict) else None
    names = (image.get("file_name", image.get("filename")) for image in images or () if isinstance(image, dict))
    found = (_NUMBER_AT_END.search(str(name)) for name in names)
    return {int(each[1]) for each in found if each}
