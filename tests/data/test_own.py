from pathlib import Path

import pytest

from smlstm.data import open_dataset
from smlstm.errors import InputError
from tests.data.test_layouts import rows

WANTED = [("a.jpg", "train", ("one", "two, with a comma")), ("sub/b.png", "dev", ("three",))]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("mine.csv", 'path,caption,split\na.jpg,one,train\na.jpg,"two, with a comma",\nsub/b.png,three,val\n'),
        (
            "mine.csv",
            "\ufeffImage;Sentence;Set\r\n./a.jpg;one;train\r\na.jpg;two, with a comma;\r\nsub/b.png;three;DEV\r\n",
        ),
        ("mine.csv", 'Image Name,Caption,split\na.jpg,one,train\na.jpg,"two, with a comma",\nsub/b.png,three,val\n'),
        (
            "mine.tsv",
            "split\tfile_name\ttext\ntrain\ta.jpg\tone\n\n\ta.jpg\ttwo, with a comma\nvalid\tsub/b.png\tthree",
        ),
        (
            "mine.jsonl",
            '{"path": "a.jpg", "caption": "one"}\n\n{"path": "a.jpg", "caption": "two, with a comma", "extra": 1}\n'
            '{"path": "sub/b.png", "caption": "three", "split": "val"}',
        ),
        (
            "mine.jsonl",
            '{"image": "a.jpg", "captions": ["one", "two, with a comma"]}\n'
            '{"path": "sub/b.png", "captions": ["three"], "split": "dev"}',
        ),
    ],
)
def test_a_table_in_its_spellings(tmp_path: Path, name: str, content: str) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8", newline="")
    (tmp_path / "a.jpg").touch()
    for path in (tmp_path / name, tmp_path):
        dataset = open_dataset(path)
        assert rows(dataset) == WANTED
        assert dataset.name == "mine"
        assert [record.path for record in dataset.missing] == [tmp_path / "sub/b.png"]


def test_a_caption_may_go_over_lines_and_be_empty(tmp_path: Path) -> None:
    (tmp_path / "mine.csv").write_text('path,caption\na.jpg,"one\nline"\nb.jpg,\n')
    dataset = open_dataset(tmp_path)
    assert rows(dataset) == [("a.jpg", "train", ("one\nline",)), ("b.jpg", "train", ())]
    assert dataset.notes == ("1 captions are empty and were left out", "1 images have no caption")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("m.csv", "", 'no "path" column: its first line must name the columns path, caption .* names nothing'),
        ("m.csv", "a.jpg,one\n", 'no "path" column.* it names a.jpg, one'),
        ("m.csv", "path,words\n", 'no "caption" column.* Also taken for "caption": captions, sentence, text, comment'),
        ("m.csv", "path,caption\n", "has no rows"),
        ("m.csv", "path,caption\na.jpg\n", "has no rows"),
        ("m.csv", "path,caption\n,one\n", r"m\.csv, line 2: there is no path"),
        ("m.csv", "path,caption,split\na,b,train\na,b,test", r'm\.csv, line 3: "a" is in both train and test'),
        ("m.csv", "path,caption,split\na,b,\nc,d,tarin", r'm\.csv, line 3: "tarin" is no split'),
        ("m.jsonl", '\n{"path": "a", "caption": "b", "split": "tarin"}', r'm\.jsonl, line 2: "tarin" is no split'),
        ("m.csv", f"path,caption\na,{'x' * 200000}", "field larger than field limit"),
        ("m.jsonl", "{", "line 1 is not JSON"),
        ("m.jsonl", "[]", 'line 1: expected {"path"'),
        ("m.jsonl", '{"path": "a"}', 'line 1 has no "caption"; it has path'),
        ("m.jsonl", '{"path": "a", "caption": null}', 'line 1: "caption" is null, not text'),
        ("m.jsonl", '{"path": "a", "caption": 3}', '"caption" is 3, not text'),
        ("m.jsonl", '{"path": ["a"], "caption": "b"}', '"path" is .*, not text'),
    ],
)
def test_a_table_gone_wrong_is_a_sentence(tmp_path: Path, name: str, content: str, message: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(InputError, match=message):
        open_dataset(tmp_path / name)


def test_rows_that_are_too_short_are_left_out_and_noted(tmp_path: Path) -> None:
    (tmp_path / "mine.csv").write_text("path,caption\na.jpg,one\nb.jpg\nc.jpg,two\nd.jpg\n")
    dataset = open_dataset(tmp_path)
    assert rows(dataset) == [("a.jpg", "train", ("one",)), ("c.jpg", "train", ("two",))]
    assert dataset.notes == (
        "2 rows of mine.csv have fewer columns than its first line and were left out, the first is line 3",
    )


def test_two_tables_in_one_folder_are_not_guessed_at(tmp_path: Path) -> None:
    (tmp_path / "a.csv").touch()
    (tmp_path / "b.jsonl").touch()
    with pytest.raises(InputError, match=r"has 2 tables \(a\.csv, b\.jsonl\): name one of them"):
        open_dataset(tmp_path)


def test_of_two_tables_the_one_with_captions_is_read(tmp_path: Path) -> None:
    (tmp_path / "captions.csv").write_text("path,caption\na.jpg,one\n")
    (tmp_path / "metadata.csv").write_text("id,title\n1,x\n")
    dataset = open_dataset(tmp_path)
    assert rows(dataset) == [("a.jpg", "train", ("one",))]
    assert dataset.notes[0].startswith("metadata.csv was left out: ")
