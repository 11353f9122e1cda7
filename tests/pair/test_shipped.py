"""The model that comes with smlstm, on real photographs out of well-known packages."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from examples.photos import collect

from smlstm import Library, Matcher
from smlstm.errors import InputError
from smlstm.pair import load_model, model_folder, shipped
from smlstm.pair.shipped import FOLDER
from smlstm.vision.tuning import is_tuned
from tests.command_line import smlstm

LARGEST = 60_000_000


@pytest.fixture(autouse=True)
def _shipped(monkeypatch):
    monkeypatch.delenv("SMLSTM_MODEL", raising=False)


@pytest.fixture(scope="module")
def library(tmp_path_factory) -> Library:
    folder = tmp_path_factory.mktemp("shipped")
    assert collect(folder / "photos") >= 12
    library = Library(folder / "library", model=FOLDER)
    library.index(folder / "photos")
    return library


def test_it_is_small_and_complete():
    files = [path for path in FOLDER.rglob("*") if path.suffix in (".json", ".safetensors")]
    assert sum(path.stat().st_size for path in files) <= LARGEST
    pair = load_model()
    assert pair.calibrated and pair.reranker.attends and pair.regions == 100
    assert is_tuned(pair.reranker.config.backbone) and pair.reranker.tuned is not None
    assert pair.shortlist is None, "its own global score finds candidates"
    assert all(parameter.dtype == torch.float32 for parameter in pair.reranker.parameters()), "half only on the disk"
    measured = json.loads((FOLDER / "calibration.json").read_text(encoding="utf-8"))["measured"]["dev"]
    assert set(measured) == {"flickr8k", "coco"}


def test_from_pretrained_is_the_pair():
    pair, matcher = load_model(), Matcher.from_pretrained()
    assert pair.matcher().kind == matcher.kind and matcher.attends
    assert matcher.vocabulary.words == pair.reranker.vocabulary.words


@pytest.mark.parametrize(
    ("sentence", "photo"),
    [
        ("a close up of a cat", "chelsea.png"),
        ("a cup of coffee with a spoon on a table", "coffee.png"),
        ("a man taking a picture with a camera on a tripod", "camera.png"),
        ("motorcycles parked in a garage", "motorcycle_left.png"),
    ],
)
def test_it_finds_photographs(library, sentence, photo):
    found = library.search(sentence, k=3)
    assert found[0].path.name == photo
    assert found[0].probability is not None and found[1].probability is not None
    assert found[0].probability > 2 * found[1].probability


def test_a_photo_that_is_not_there_is_unlikely(library):
    there = library.search("a close up of a cat", k=1)[0].probability
    absent = library.search("a group of surfers riding a wave in the ocean", k=1)[0].probability
    assert there is not None and absent is not None and absent < 0.5 * there


def test_search_says_when_no_photo_is_likely(library):
    place = ("--library", library.folder, "--no-index")
    absent = smlstm("search", "a group of surfers riding a wave in the ocean", *place)
    assert absent.returncode == 0 and "none of them is likely to match: the best has" in absent.stderr
    there = smlstm("search", "a close up of a cat", *place)
    assert "chelsea.png" in there.stdout.splitlines()[0] and "none of them" not in there.stderr


def test_unknown_words_are_named_and_the_rest_still_counts(library):
    found = library.search("a close up of a flurbic cat", k=1)
    assert found.unknown == ("flurbic",) and found[0].path.name == "chelsea.png"


def test_commands_use_it_by_themselves(library):
    photo = library.folder.parent / "photos" / "chelsea.png"
    right, wrong = answer("score", photo, "a close up of a cat", "a train at a station")
    assert right["probability"] > 10 * wrong["probability"]
    assert len(answer("explain", photo, "a close up of a cat")["models"][0]["pairs"][0]["steps"]) == 3
    (named,) = answer("annotate", photo)
    assert {"cat", "kitten"} & set(named["sentences"][0]["sentence"].split())


def answer(*arguments: object) -> Any:
    found = smlstm(*arguments, "--json")
    assert found.returncode == 0, found.stderr
    return json.loads(found.stdout)


def test_without_it_a_sentence_says_what_to_do(monkeypatch, tmp_path):
    monkeypatch.setattr(shipped, "FOLDER", Path(tmp_path))
    with pytest.raises(InputError, match="this installation lacks the model that comes with smlstm.*--model FOLDER"):
        model_folder()
