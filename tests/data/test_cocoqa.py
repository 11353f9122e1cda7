import json
from pathlib import Path

import pytest

from smlstm.data import open_dataset
from smlstm.data.cocoqa import statement
from smlstm.errors import InputError

HEADER = "image_id\ttype\tquestion\tanswer\n"


@pytest.mark.parametrize(
    ("kind", "question", "answer", "said"),
    [
        ("0", "what stands atop the laptop computer", "kitten", "a kitten stands atop the laptop computer"),
        ("0", "what are set up on sand near two people", "chairs", "chairs are set up on sand near two people"),
        ("0", "what is the man cutting with a knife", "apple", "the man is cutting an apple with a knife"),
        ("0", "what does the guy open", "refrigerator", "the guy open a refrigerator"),
        ("0", "what is riding down the street", "motorcycle", "a motorcycle is riding down the street"),
        ("0", "row what racing across water", "boats", "row boats racing across water"),
        ("0", "stuffed bear posed as if using what", "computer", "stuffed bear posed as if using a computer"),
        ("1", "how many zebras graze in a field", "two", "two zebras graze in a field"),
        ("1", "the table that has how many plates of pizza", "three", "the table that has three plates of pizza"),
        ("2", "what is the color of the bird", "yellow", "the yellow bird"),
        ("3", "where is the cat laying down", "sink", "the cat laying down in the sink"),
        ("0", "what is the king holding", "sword", "the king is holding a sword"),
        ("0", "what is the painting showing", "boat", "the painting is showing a boat"),
        ("1", "what number of dogs", "two", None),
        ("2", "which color has the bird", "yellow", None),
        ("0", "which animal sits there", "cat", None),
    ],
)
def test_question_and_answer_make_a_sentence(kind: str, question: str, answer: str, said: str | None) -> None:
    assert statement(kind, question, answer) == said


def test_photos_with_captions_of_their_own_are_left_out(tmp_path: Path) -> None:
    notes = tmp_path / "annotations"
    notes.mkdir()
    (notes / "cocoqa.tsv").write_text(
        HEADER + "9\t2\twhat is the color of the dog\tblack\n9\t1\thow many dogs run\ttwo\n25\t0\twhat sits\tcat\n"
    )
    captions = {"images": [{"id": 25, "file_name": "000000000025.jpg"}], "annotations": []}
    (notes / "captions_train2017.json").write_text(json.dumps(captions))
    dataset = open_dataset(notes / "cocoqa.tsv")
    assert dataset.name == "coco-qa"
    (record,) = dataset.records
    assert (record.key, record.split) == ("000000000009.jpg", "train")
    assert record.path == tmp_path / "train2017" / "000000000009.jpg"
    assert record.captions == ("the black dog", "two dogs run")
    assert dataset.notes == ("1 photos have captions of their own and were left out",)


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("annotations/captions_val2014.json", "COCO_val2014_000000000025.jpg"),
        ("annotations/captions_val2017.json", "000000000025.jpg"),
        ("dataset_coco.json", "COCO_val2014_000000000025.jpg"),
    ],
)
def test_photos_are_known_by_their_number_whatever_the_year(tmp_path: Path, file: str, name: str) -> None:
    (tmp_path / "annotations").mkdir()
    questions = tmp_path / "annotations" / "cocoqa.tsv"
    questions.write_text(HEADER + "9\t1\thow many dogs run\ttwo\n25\t0\twhat sits\tcat\n")
    key = "filename" if file.startswith("dataset") else "file_name"
    (tmp_path / file).write_text(json.dumps({"images": [{key: name}]}))
    assert [record.key for record in open_dataset(questions).records] == ["000000000009.jpg"]


def test_questions_that_fit_no_rule_are_told(tmp_path: Path) -> None:
    file = tmp_path / "cocoqa.tsv"
    file.write_text(HEADER + "9\t1\thow many dogs run\ttwo\n9\t1\twhat number of dogs\ttwo\n8\t2\twhy\tred\n")
    dataset = open_dataset(file)
    assert [record.captions for record in dataset.records] == [("two dogs run",)]
    assert dataset.notes == ("2 questions are no sentence with their answer and were left out",)


@pytest.mark.parametrize("kind", ["7", "", "01"])
def test_a_broken_row_is_named(tmp_path: Path, kind: str) -> None:
    file = tmp_path / "cocoqa.tsv"
    file.write_text(HEADER + f"9\t{kind}\twhat sits\tcat\n")
    with pytest.raises(InputError, match="line 2: expected a photo's number"):
        open_dataset(file)
