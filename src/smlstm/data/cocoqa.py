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

Where COCO's own captions lie beside it (coco.py), their photos are left out: a photo must not meet itself as another.
All is train.
"""

import re
from pathlib import Path

from smlstm.data.files import read_json, read_lines
from smlstm.data.records import Dataset, Record
from smlstm.errors import InputError

EXPECTED = "COCO-QA: a file cocoqa.tsv with the columns image_id, type, question, answer, beside the photos' folder"
SCHEMES: tuple[str, ...] = ()
_COLUMNS = "image_id\ttype\tquestion\tanswer"
_OBJECT, _NUMBER, _COLOUR, _PLACE = "0123"
_CAPTIONED = ("captions_train2017.json", "captions_val2017.json")
_DETERMINERS = frozenset(("a", "an", "the", "this", "that", "these", "those", "some", "two", "three", "four", "many"))
_VOWELS = tuple("aeiou")
_TURNED = re.compile(r"what (?:(is|are|was|were)|does|do|did) (.+)")
_OF_COLOUR = re.compile(r"what is the colou?r of (?:the )?(.+)")
_WHERE = re.compile(r"where (?:is|are|was|were|does|do|did) (.+)")


def recognise(path: Path) -> bool:
    """Whether a file has COCO-QA's columns."""
    return path.is_file() and path.suffix == ".tsv" and next(read_lines(path), "").strip() == _COLUMNS


def read(path: Path, scheme: str | None = None) -> Dataset:
    """Read the sentences of each photo that has no captions of its own."""
    captioned = {str(image.get("file_name")) for name in _CAPTIONED for image in _images(path.with_name(name)) if image}
    sentences: dict[str, list[str]] = {}
    for number, line in enumerate(read_lines(path), start=1):
        row = line.split("\t")
        if number == 1 or not line.strip():
            continue
        if len(row) != 4 or not row[0].isdecimal() or row[1] not in "0123":
            raise InputError(
                f"{path}, line {number}: expected a photo's number, a type from 0 to 3, a question and an answer, "
                f"found {line[:80]!r}"
            )
        said = statement(row[1], row[2], row[3])
        known = sentences.setdefault(f"{int(row[0]):012}.jpg", [])
        if said not in known:
            known.append(said)
    folder = (path.parent.parent if path.parent.name == "annotations" else path.parent) / "train2017"
    records = [Record(name, folder / name, tuple(said), "train") for name, said in sentences.items()]
    kept = tuple(record for record in records if record.key not in captioned)
    notes = [f"{len(records) - len(kept)} photos have captions of their own and were left out"]
    return Dataset("coco-qa", path, kept, tuple(notes[: len(records) - len(kept)]))


def statement(kind: str, question: str, answer: str) -> str:
    """What a question and its answer say together.

    >>> statement("0", "what stands atop the laptop computer", "kitten")
    'a kitten stands atop the laptop computer'
    """
    if kind == _COLOUR and (found := _OF_COLOUR.fullmatch(question)):
        return f"the {answer} {found[1]}"
    if kind == _PLACE and (found := _WHERE.fullmatch(question)):
        return f"{found[1]} in the {answer}"
    if kind == _NUMBER:
        return question.replace("how many", answer, 1)
    found = _TURNED.fullmatch(question)
    if found is None or (found[1] and found[2].split()[0] not in _DETERMINERS):
        before, _, after = f" {question} ".partition(" what ")
        return " ".join(f"{before} {_named(answer, before)} {after}".split())
    words, thing = found[2].split(), _named(answer, "")
    doing = next((place for place, word in enumerate(words) if word.endswith("ing")), None)
    if not found[1] or doing is None:
        return f"{found[2]} {thing}"
    return " ".join([*words[:doing], found[1], words[doing], thing, *words[doing + 1 :]])


def _named(answer: str, before: str) -> str:
    """With an article, where one is wanted."""
    if answer.endswith("s") or not _DETERMINERS.isdisjoint(before.split()[-1:]):
        return answer
    return f"an {answer}" if answer.startswith(_VOWELS) else f"a {answer}"


def _images(captions: Path) -> list[dict[str, object]]:
    content = read_json(captions) if captions.exists() else {}
    images = content.get("images") if isinstance(content, dict) else None
    return images if isinstance(images, list) else []
