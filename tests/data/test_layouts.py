import json
from pathlib import Path

import pytest

from smlstm.data import Dataset, open_dataset
from smlstm.data.summary import summarise
from smlstm.data.tokens_file import read_token_file
from smlstm.errors import ConfigurationError, InputError

Files = dict[str, object]


def write(root: Path, files: Files) -> Path:
    for name, content in files.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return root


def rows(dataset: Dataset) -> list[tuple[str, str, tuple[str, ...]]]:
    return [(record.key, record.split, record.captions) for record in dataset.records]


def coco_file(names: list[str], captions: list[tuple[int, str]]) -> Files:
    images = [{"id": number, "file_name": name} for number, name in enumerate(names)]
    return {"images": images, "annotations": [{"image_id": number, "caption": text} for number, text in captions]}


def karpathy_file(rows: list[tuple[str, str, str, list[str]]]) -> Files:
    images = [
        {"filename": name, "filepath": folder, "split": split, "sentences": [{"raw": text} for text in captions]}
        for name, folder, split, captions in rows
    ]
    return {"dataset": "coco", "images": images}


FLICKR8K: Files = {
    "Flickr8k.token.txt": "1_a.jpg#0\tA dog .\n1_a.jpg#1\tTwo dogs\n2_b.jpg#0\tA café\n3_c.jpg#0\tunlisted\n",
    "Flickr_8k.trainImages.txt": "1_a.jpg\n4_d.jpg\n\n",
    "Flickr_8k.devImages.txt": "2_b.jpg",
    "Images/1_a.jpg": "",
}


def test_flickr8k_joins_captions_and_lists(tmp_path: Path) -> None:
    dataset = open_dataset(write(tmp_path, FLICKR8K))
    assert dataset.name == "flickr8k"
    assert rows(dataset) == [("1_a.jpg", "train", ("A dog .", "Two dogs")), ("2_b.jpg", "dev", ("A café",))]
    assert dataset.splits == {"train": 1, "dev": 1}
    assert [record.key for record in dataset.split("val")] == ["2_b.jpg"]
    assert [record.key for record in dataset.missing] == ["2_b.jpg"]
    assert dataset.records[0].path == tmp_path / "Images" / "1_a.jpg"
    assert dataset.notes == (
        '1 listed images have no caption and were left out, the first is "4_d.jpg"',
        '1 images with captions are in no split, the first is "3_c.jpg"',
    )
    with pytest.raises(ConfigurationError, match='has no "test" split; it has train, dev'):
        dataset.split("test")
    with pytest.raises(ConfigurationError, match='has no "bogus" split'):
        dataset.split("bogus")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"Flickr8k.token.txt": "1_a.jpg A dog\n"}, r'line 1: expected "image.jpg#0<TAB>caption", found \'1_a'),
        ({"Flickr8k.token.txt": "\n"}, "has no captions"),
        ({"Flickr_8k.devImages.txt": "1_a.jpg"}, '"1_a.jpg" is listed in both train and dev'),
        ({"Flickr_8k.devImages.txt": "2_b.jpg\n2_b.jpg"}, "listed twice"),
        ({"Flickr_8k.devImages.txt": "9.jpg", "Flickr_8k.trainImages.txt": ""}, "no image in any split"),
    ],
)
def test_flickr8k_gone_wrong_is_a_sentence(tmp_path: Path, change: Files, message: str) -> None:
    with pytest.raises(InputError, match=message):
        open_dataset(write(tmp_path, FLICKR8K | change))


def test_flickr8k_without_lists_says_which_it_wants(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none of the split lists Flickr_8k\.trainImages\.txt"):
        open_dataset(write(tmp_path, {"Flickr8k.token.txt": "1.jpg#0\tA dog"}))


def test_captions_of_a_token_file_are_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    """Ratings of captions name them so."""
    path = tmp_path / "Flickr8k.token.txt"
    path.write_text("1.jpg#1\tsecond\n2.jpg#0\tother\n1.jpg#10\tlast\n1.jpg#0\tfirst\n3.jpg#x\ta\n3.jpg#x\tb\n")
    assert read_token_file(path) == {"1.jpg": ["first", "second", "last"], "2.jpg": ["other"], "3.jpg": ["a", "b"]}


def test_text_that_is_not_utf8_is_a_sentence(tmp_path: Path) -> None:
    write(tmp_path, FLICKR8K)
    (tmp_path / "Flickr8k.token.txt").write_bytes(b"1.jpg#0\tcaf\xe9\n")
    with pytest.raises(InputError, match="is not UTF-8 text"):
        open_dataset(tmp_path)


F30K_TOKEN = "1.jpg#0\tA dog .\n1.jpg#1\tTwo\n2.jpg#0\tA cat\n3.jpg#0\tA cow\n"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("results_20130124.token", F30K_TOKEN),
        ("captions.txt", 'image,caption\n1.jpg,A dog .\n1.jpg,Two\n2.jpg,A cat\n3.jpg,"A cow"\n'),
        (
            "captions.txt",
            "image_name,comment_number,comment\n1.jpg,0,A dog .\n1.jpg,1,Two\n2.jpg,0,A cat\n3.jpg,0,A cow",
        ),
        (
            "results.csv",
            "image_name| comment_number| comment\n1.jpg| 0| A dog .\n1.jpg| 1| Two\n2.jpg|0|A cat\n3.jpg|0|A cow",
        ),
    ],
)
def test_flickr30k_in_its_spellings(tmp_path: Path, name: str, content: str) -> None:
    write(tmp_path, {name: content, "flickr30k-images/1.jpg": ""})
    dataset = open_dataset(tmp_path)
    assert rows(dataset) == [
        ("1.jpg", "train", ("A dog .", "Two")),
        ("2.jpg", "train", ("A cat",)),
        ("3.jpg", "train", ("A cow",)),
    ]
    assert dataset.notes == ("there are no split lists: all images count as train",)
    assert len(dataset.missing) == 2
    with pytest.raises(InputError, match=r"none of the lists flickr30k_train\.txt"):
        open_dataset(tmp_path, "kiros")
    with pytest.raises(InputError, match=r"no dataset_flickr30k\.json"):
        open_dataset(tmp_path, "karpathy")
    write(tmp_path, {"train.txt": "1\n", "val.txt": "2.jpg\n", "flickr30k_test.txt": "3.jpg"})
    assert [row[:2] for row in rows(open_dataset(tmp_path))] == [
        ("1.jpg", "train"),
        ("2.jpg", "dev"),
        ("3.jpg", "test"),
    ]


def test_flickr30k_has_two_published_splits(tmp_path: Path) -> None:
    listing = karpathy_file([("1.jpg", "", "test", ["A dog ."]), ("3.jpg", "", "val", ["A cow"])])
    write(tmp_path, {"results_20130124.token": F30K_TOKEN, "dataset_flickr30k.json": listing})
    karpathy = [("1.jpg", "test", ("A dog .",)), ("3.jpg", "dev", ("A cow",))]
    assert rows(open_dataset(tmp_path)) == karpathy
    write(tmp_path, {"train.txt": "1.jpg"})
    assert rows(open_dataset(tmp_path)) == [("1.jpg", "train", ("A dog .", "Two"))]
    assert rows(open_dataset(tmp_path, "karpathy")) == karpathy
    assert rows(open_dataset(tmp_path, "kiros")) == [("1.jpg", "train", ("A dog .", "Two"))]


def test_coco_2017(tmp_path: Path) -> None:
    train = coco_file(["000000000001.jpg", "000000000002.jpg", "000000000003.jpg"], [(1, "b"), (0, "a\n"), (1, "c")])
    val = coco_file(["000000000009.jpg"], [(0, text) for text in "abcdefg"])
    files = {"annotations/captions_train2017.json": train, "annotations/captions_val2017.json": val}
    dataset = open_dataset(write(tmp_path, files | {"val2017/000000000009.jpg": ""}))
    assert rows(dataset) == [
        ("000000000001.jpg", "train", ("a",)),
        ("000000000002.jpg", "train", ("b", "c")),
        ("000000000009.jpg", "dev", tuple("abcdefg")),
    ]
    assert [record.key for record in dataset.missing] == ["000000000001.jpg", "000000000002.jpg"]
    assert dataset.notes == (
        '1 images of captions_train2017.json have no caption and were left out, the first is "000000000003.jpg"',
    )
    assert len(open_dataset(tmp_path / "annotations" / "captions_val2017.json")) == 1


def test_coco_2014_with_the_splits_of_kiros_and_karpathy(tmp_path: Path) -> None:
    one, two = "COCO_train2014_000000000001.jpg", "COCO_val2014_000000000002.jpg"
    files: Files = {
        "annotations/captions_train2014.json": coco_file([one], [(0, "a")]),
        "annotations/captions_val2014.json": coco_file([two], [(0, "b")]),
        f"train2014/{one}": "",
        f"val2014/{two}": "",
    }
    dataset = open_dataset(write(tmp_path, files))
    assert rows(dataset) == [(one, "train", ("a",)), (two, "dev", ("b",))]
    assert dataset.missing == ()
    with pytest.raises(InputError, match=r"none of Kiros' lists coco_train\.txt"):
        open_dataset(tmp_path, "kiros")
    with pytest.raises(InputError, match=r"no dataset_coco\.json"):
        open_dataset(tmp_path, "karpathy")
    with pytest.raises(ConfigurationError, match='no split scheme "magic"; this layout has: official, karpathy, kiros'):
        open_dataset(tmp_path, "magic")
    write(tmp_path, {"coco_train.txt": two, "coco_test.txt": f"{one}\nCOCO_val2014_000000000077.jpg\n"})
    kiros = open_dataset(tmp_path, "kiros")
    assert rows(kiros) == [(two, "train", ("b",)), (one, "test", ("a",))]
    assert "1 listed images have no caption" in kiros.notes[0]
    listing = karpathy_file([(one, "train2014", "test", ["a"]), (two, "val2014", "restval", ["b", "c"])])
    karpathy = open_dataset(write(tmp_path, {"dataset_coco.json": listing}), "karpathy")
    assert rows(karpathy) == [(one, "test", ("a",)), (two, "train", ("b", "c"))]
    assert karpathy.missing == ()


def test_karpathys_and_kiros_splits_find_the_photos_of_the_2017_layout(tmp_path: Path) -> None:
    listing = karpathy_file([("COCO_val2014_000000000002.jpg", "val2014", "test", ["b"])])
    files: Files = {
        "annotations/captions_train2017.json": coco_file(["000000000002.jpg"], [(0, "b")]),
        "dataset_coco.json": listing,
        "coco_dev.txt": "COCO_val2014_000000000002.jpg",
        "train2017/000000000002.jpg": "",
    }
    write(tmp_path, files)
    for scheme, split in (("karpathy", "test"), ("kiros", "dev")):
        dataset = open_dataset(tmp_path, scheme)
        assert rows(dataset) == [("000000000002.jpg", split, ("b",))]
        assert dataset.missing == ()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[", "is not JSON"),
        ([], 'has no "images" list: is this a COCO captions file'),
        ({"images": []}, 'has no "annotations" list'),
        ({"images": [{"id": 1}], "annotations": []}, "needs id and file_name"),
        (coco_file(["a.jpg"], [(5, "a")]), "stopped at 5"),
        (coco_file([], []), "no image in any split"),
        (coco_file(["a.jpg", "a.jpg"], [(0, "a"), (1, "b")]), '"a.jpg" is in two|listed twice'),
    ],
)
def test_coco_gone_wrong_is_a_sentence(tmp_path: Path, content: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        open_dataset(write(tmp_path, {"annotations/captions_train2017.json": content}))


def test_karpathys_file_alone(tmp_path: Path) -> None:
    listing = karpathy_file(
        [("1.jpg", "", "restval", ["a", "b"]), ("2.jpg", "", "val", []), ("3.jpg", "", "test", ["c"])]
    )
    write(tmp_path, {"dataset_flickr8k.json": listing, "Flicker8k_Dataset/1.jpg": ""})
    for path in (tmp_path, tmp_path / "dataset_flickr8k.json"):
        dataset = open_dataset(path, "karpathy")
        assert rows(dataset) == [("1.jpg", "train", ("a", "b")), ("3.jpg", "test", ("c",))]
        assert [record.key for record in dataset.missing] == ["3.jpg"]
        assert "1 images have no caption" in dataset.notes[0]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([], 'has no "images" list'),
        ({"images": [{"filename": "a.jpg"}]}, "image 0 needs filename, split and"),
        ({"images": [3]}, "image 0 needs filename"),
        (karpathy_file([("a.jpg", "", "tset", ["a"])]), r'flickr8k\.json, image 0 \("a\.jpg"\): "tset" is no split'),
    ],
)
def test_karpathys_file_gone_wrong_is_a_sentence(tmp_path: Path, content: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        open_dataset(write(tmp_path, {"dataset_flickr8k.json": content}))


def test_an_unknown_layout_says_everything_that_was_looked_for(tmp_path: Path) -> None:
    write(tmp_path, {"notes.md": "hello"})
    with pytest.raises(InputError) as caught:
        open_dataset(tmp_path)
    for word in ("Flickr8k.token.txt", "results_20130124.token", "captions_train2017.json", "train_ims.npy", ".jsonl"):
        assert word in str(caught.value)
    with pytest.raises(InputError, match="does not exist"):
        open_dataset(tmp_path / "nowhere")


def test_a_folder_that_may_not_be_read_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "iterdir", refuse)
    with pytest.raises(InputError, match=f"{tmp_path} cannot be read: Permission denied"):
        open_dataset(tmp_path)


def test_the_row_of_flickr30k_that_lacks_a_delimiter_is_read(tmp_path: Path) -> None:
    content = (
        "image_name| comment_number| comment\n"
        "2199200615.jpg| 3| A dog runs .\n"
        "2199200615.jpg| 4   A dog runs across the grass .\n"
        "12.jpg| 0\n"
        "13.jpg| 0| Two\n"
    )
    dataset = open_dataset(write(tmp_path, {"results.csv": content}))
    assert rows(dataset) == [
        ("2199200615.jpg", "train", ("A dog runs .", "A dog runs across the grass .")),
        ("13.jpg", "train", ("Two",)),
    ]
    assert dataset.notes[0] == (
        "1 rows of results.csv have fewer columns than its first line and were left out, the first is line 4"
    )


def test_flickr8k_of_kaggle(tmp_path: Path) -> None:
    one, two = "1000268201_693b08cb0e.jpg", "1001773457_577c3a7d70.jpg"
    write(
        tmp_path,
        {"captions.txt": f"image,caption\n{one},A child .\n{one},A girl .\n{two},Dogs .\n", f"Images/{one}": ""},
    )
    dataset = open_dataset(tmp_path)
    assert dataset.name == "flickr8k"
    assert rows(dataset) == [(one, "train", ("A child .", "A girl .")), (two, "train", ("Dogs .",))]
    assert dataset.notes == ("there are no split lists: all images count as train",)
    assert [record.key for record in dataset.missing] == [two]
    with pytest.raises(InputError, match="none of the split lists"):
        open_dataset(tmp_path, "official")
    with pytest.raises(InputError, match=r"has no dataset_flickr8k\.json, which holds Karpathy's splits"):
        open_dataset(tmp_path, "karpathy")
    write(tmp_path, {"Flickr_8k.trainImages.txt": one, "Flickr_8k.testImages.txt": two})
    assert open_dataset(tmp_path).splits == {"train": 1, "test": 1}


def test_flickr8k_as_published_without_karpathys_file_says_which_it_wants(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"has no dataset_flickr8k\.json, which holds Karpathy's splits"):
        open_dataset(write(tmp_path, FLICKR8K), "karpathy")


@pytest.mark.parametrize("name", ["f8k.json", "captions_f8k.json"])
def test_karpathys_file_is_known_by_its_content(tmp_path: Path, name: str) -> None:
    write(tmp_path, {name: karpathy_file([("1.jpg", "", "test", ["a"])]), "images/1.jpg": ""})
    for path in (tmp_path, tmp_path / name):
        dataset = open_dataset(path)
        assert rows(dataset) == [("1.jpg", "test", ("a",))]
        assert dataset.missing == ()


def test_images_in_no_list_of_kiros_are_noted(tmp_path: Path) -> None:
    content = coco_file(["000000000001.jpg", "000000000002.jpg"], [(0, "a"), (1, "b")])
    write(tmp_path, {"annotations/captions_train2017.json": content, "coco_train.txt": "000000000001.jpg"})
    notes = open_dataset(tmp_path, "kiros").notes
    assert notes == ('1 images with captions are in no split, the first is "000000000002.jpg"',)


@pytest.mark.parametrize(
    "files",
    [
        {"Flickr8k.token.txt": "1.jpg#0\tA dog\n1.jpg#1\t \n2.jpg#0\t\n", "Flickr_8k.trainImages.txt": "1.jpg\n2.jpg"},
        {"results_20130124.token": "1.jpg#0\tA dog\n1.jpg#1\t \n2.jpg#0\t\n"},
        {"annotations/captions_train2017.json": coco_file(["1.jpg", "2.jpg"], [(0, "A dog"), (0, " "), (1, "")])},
        {"dataset_coco.json": karpathy_file([("1.jpg", "", "train", ["A dog", " "]), ("2.jpg", "", "train", [""])])},
        {"mine.csv": "path,caption\n1.jpg,A dog\n1.jpg, \n2.jpg,\n"},
    ],
)
def test_empty_captions_are_left_out_and_counted_in_every_dataset(tmp_path: Path, files: Files) -> None:
    dataset = open_dataset(write(tmp_path, files))
    assert rows(dataset) == [("1.jpg", "train", ("A dog",)), ("2.jpg", "train", ())]
    assert dataset.notes[-2:] == ("2 captions are empty and were left out", "1 images have no caption")


def test_photos_that_are_in_no_row_are_noted(tmp_path: Path) -> None:
    write(tmp_path, {"mine.csv": "path,caption\na.jpg,one\n", "a.jpg": "", "b.jpg": "", ".c.jpg": "", "d.txt": ""})
    dataset = open_dataset(tmp_path)
    assert dataset.unlisted == (tmp_path / "b.jpg",)
    assert summarise(dataset).notes == [
        f'1 photos in its folders are not of this dataset, the first is "{tmp_path / "b.jpg"}"'
    ]
