import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from tests.evaluation.made import save_mnlm, save_smlstm
from typer.testing import CliRunner

import smlstm.cli.explain  # noqa: F401 - registers the command
from smlstm import ImageFeatures, Matcher
from smlstm.cli import app
from smlstm.data import FeatureStore, open_dataset
from smlstm.data.scene_folder import write_scenes
from smlstm.errors import SmlstmError

WIDTHS = {"region_width": 256, "context_width": 256}


def explain(*arguments: object) -> str:
    done = CliRunner().invoke(app, ["explain", *map(str, arguments)])
    if done.exception is not None:
        raise done.exception
    return done.stdout


@pytest.fixture(scope="module")
def world(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("dataset")
    write_scenes(folder / "scenes", train=2, dev=9, seed=4, size=64, captions=2, patches=4)
    save_smlstm(folder / "full", **WIDTHS)
    save_smlstm(folder / "att", seed=1, variant="att", **WIDTHS)
    save_mnlm(folder / "blind", **WIDTHS)
    return folder


@pytest.fixture(scope="module")
def data(world) -> tuple[object, ...]:
    return "--data", world / "scenes", "--features", world / "scenes" / "features"


def test_a_gallery_takes_photos_from_all_over_the_split(world, data, tmp_path):
    text = explain(*data, "--model", world / "full", "--pairs", 3, "--out", tmp_path / "gallery.html")
    firsts = [line for line in text.splitlines() if not line.startswith("  ")]
    captions = {record.key: record.captions[0] for record in open_dataset(world / "scenes").split("dev")}
    shown = ["00002.png", "00006.png", "00010.png"]  # the first, the middle and the last of nine
    assert [line.split("  score")[0] for line in firsts] == [f'{key}  "{captions[key]}"' for key in shown]
    page = (tmp_path / "gallery.html").read_text()
    assert all(key in page for key in shown)


def test_with_and_without_context_the_same_pairs_stand_beside_each_other(world, data, tmp_path):
    arguments = (*data, "--model", world / "full", "--compare", world / "att", "--pairs", 2, "--json")
    found = json.loads(explain(*arguments, "--out", tmp_path / "both.png"))
    assert [each["model"] for each in found["models"]] == ["full", "att"]
    one, other = ([(pair["photo"], pair["sentence"]) for pair in each["pairs"]] for each in found["models"])
    assert one == other and len(one) == 2
    assert Image.open(tmp_path / "both.png").width > 1000


def test_a_feature_store_is_explained_with_the_captions_of_its_dataset(world, data):
    store = ("--data", world / "scenes" / "features", "--captions", world / "scenes")
    assert explain(*store, "--model", world / "full", "--pairs", 2) == explain(
        *data, "--model", world / "full", "--pairs", 2
    )


def test_averages_are_over_every_caption_of_the_split(world, data, tmp_path):
    arguments = (*data, "--model", world / "full", "--compare", world / "att", "--average")
    found = json.loads(explain(*arguments, "--json", "--out", tmp_path / "centre.png"))["models"]
    assert [(each["name"], each["pairs"]) for each in found] == [("full", 18), ("att", 18)]
    records = open_dataset(world / "scenes").split("dev")
    matcher = Matcher.load(world / "full")
    regions, context = FeatureStore.open(world / "scenes" / "features").read([record.key for record in records])
    images = matcher.encode_images(ImageFeatures(torch.from_numpy(regions), torch.from_numpy(context)))
    maps = [
        matcher.attend(images, matcher.encode_sentences([caption]), torch.tensor([[number, 0]])).image[0]
        for number, record in enumerate(records)
        for caption in record.captions
    ]
    expected = torch.stack(maps).mean(0).detach().numpy().reshape(3, 4, 4)
    assert np.allclose(found[0]["regions"], expected, atol=1e-6)
    assert Image.open(tmp_path / "centre.png").width > 1000
    lines = explain(*arguments).splitlines()
    assert lines[0] == "full: 18 pairs; saliency in the central quarter of the photo (even: 25%)"
    assert lines[1] == f"  step 1  {found[0]['central_quarter'][0]:6.1%}"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--data", "{w}/scenes", "--model", "{w}/blind"), r"blind has no attention \(mnlm\)"),
        (("--data", "{w}/scenes", "--model", "{w}/full", "a dog"), "'a dog' says nothing beside --data"),
        (("--data", "{w}/scenes", "--model", "{w}/full", "--split", "test"), 'no "test" split'),
        (("--model", "{w}/full", "--average"), "--average goes with --data"),
        (("--model", "{w}/full", "--features", "{w}/scenes"), "--features goes with --data"),
        (("--data", "{w}/scenes", "--model", "{w}/full", "--average", "--pairs", "3"), "--pairs says nothing beside"),
        (
            ("--data", "{w}/scenes", "--model", "{w}/full", "--compare", "{w}/full"),
            "given twice: give different models",
        ),
        (("--data", "{w}/scenes/features", "--model", "{w}/full"), "give the dataset as --captions"),
        (("--model", "{w}/full"), "there is no photo: give a file and a sentence, or a dataset with --data"),
    ],
)
def test_what_cannot_be_done_is_refused_first(world, monkeypatch, arguments, message):
    monkeypatch.setattr("smlstm.explain.explain_records", None)
    with pytest.raises(SmlstmError, match=message):
        explain(*(argument.format(w=world) for argument in arguments))
