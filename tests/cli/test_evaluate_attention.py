import json
from pathlib import Path

import pytest
import torch
from tests.evaluation.made import save_mnlm, save_smlstm
from typer.testing import CliRunner

import smlstm.cli.evaluate  # noqa: F401 - registers the command
from smlstm import ImageFeatures, Matcher
from smlstm.cli import app
from smlstm.data import FeatureStore, open_dataset
from smlstm.data.scene_folder import read_places, write_scenes
from smlstm.errors import SmlstmError
from smlstm.evaluation.attention import measure_pointing
from smlstm.evaluation.removal import measure_removal

WIDTHS = {"region_width": 256, "context_width": 256}


def evaluate(*arguments: object) -> str:
    done = CliRunner().invoke(app, ["evaluate", *map(str, arguments), "--attention"])
    if done.exception is not None:
        raise done.exception
    return done.stdout


@pytest.fixture(scope="module")
def world(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("attention")
    write_scenes(folder / "scenes", train=2, dev=8, seed=4, size=64, captions=2, patches=4)
    save_smlstm(folder / "full", **WIDTHS)
    save_smlstm(folder / "att", seed=1, variant="att", **WIDTHS)
    save_mnlm(folder / "blind", **WIDTHS)
    return folder


@pytest.fixture(scope="module")
def data(world) -> tuple[object, ...]:
    return "--data", world / "scenes", "--features", world / "scenes" / "features"


def test_the_numbers_are_those_of_the_measures_by_hand(world, data):
    content = json.loads(evaluate(world / "full", world / "att", *data, "--images", 5, "--json"))
    assert (content["images"], content["split"]) == (5, "dev")
    assert [each["model"] for each in content["results"]] == ["full", "att"]
    records = open_dataset(world / "scenes").split("dev")[:5]
    regions, context = FeatureStore.open(world / "scenes" / "features").read([record.key for record in records])
    features = ImageFeatures(torch.from_numpy(regions), torch.from_numpy(context))
    for name, result in zip(("full", "att"), content["results"], strict=True):
        matcher = Matcher.load(world / name)
        pointing = measure_pointing(matcher, read_places(world / "scenes", records), features)
        assert result["pointing"]["hits"]["value"] == pytest.approx(pointing.hits.value)
        assert result["pointing"]["chance"] == pytest.approx(pointing.chance)
        for found, filler in zip(result["removal"], ("mean", "zero"), strict=True):
            expected = measure_removal(matcher, features, [record.captions[0] for record in records], filler=filler)
            assert found["filler"] == filler
            assert found["deletion"]["difference"]["value"] == pytest.approx(expected.deletion.difference.value)
            assert found["insertion"]["at_random"] == pytest.approx(expected.insertion.at_random)


def test_the_table_has_intervals_and_baselines(world, data):
    text = evaluate(world / "full", *data)
    assert text.startswith("captions dev: 8 photos, each with its first caption\n")
    lines = text.splitlines()
    assert " ".join(lines[2].split()) == "model filler deletion 95% interval of all insertion 95% interval of all"
    assert (lines[3].split()[:2], lines[4].split()[0]) == (["full", "mean"], "zero")
    assert "chance" in lines[6] and "centre" in lines[6]
    assert lines[7].split()[:2] == ["full", "hits"]


def test_photos_without_places_get_no_pointing_game(world, data, tmp_path):
    (tmp_path / "captions.csv").write_text((world / "scenes" / "captions.csv").read_text())
    arguments = ("--data", tmp_path / "captions.csv", *data[2:], "--images", 3)
    (result,) = json.loads(evaluate(world / "full", *arguments, "--json"))["results"]
    assert result["pointing"] is None
    assert len(result["removal"]) == 2
    assert "pointing" not in evaluate(world / "full", *arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("{w}/blind", "--data", "{w}/scenes"), r"blind has no attention \(mnlm\)"),
        (("{w}/full", "--data", "{w}/scenes", "--save", "{w}/m"), "--save says nothing beside --attention"),
        (("{w}/full", "--data", "{w}/scenes", "--protocol", "folds"), "--protocol says nothing beside --attention"),
        (("{w}/full", "--data", "{w}/scenes", "--judgement", "{w}/r"), "--attention says nothing beside --judgement"),
        (("{w}/full", "--data", "{w}/scenes", "--split", "test"), 'no "test" split'),
    ],
)
def test_bad_input_is_refused_before_anything_is_measured(world, arguments, message, monkeypatch):
    monkeypatch.setattr("smlstm.evaluation.attention_run.measure_removal", None)
    with pytest.raises(SmlstmError, match=message):
        evaluate(*(argument.format(w=world) for argument in arguments))


@pytest.fixture(scope="module")
def entities(world) -> Path:
    """Phrases of the scenes: each caption's first two words, in the upper left quarter."""
    folder = world / "entities"
    for name in ("Annotations", "Sentences"):
        (folder / name).mkdir(parents=True)
    box = "<bndbox><xmin>0</xmin><ymin>0</ymin><xmax>32</xmax><ymax>32</ymax></bndbox>"
    size = "<size><width>64</width><height>64</height></size>"
    for record in open_dataset(world / "scenes").split("dev"):
        stem = Path(record.key).stem
        lines = [" ".join(["[/EN#1/other", *caption.split()[:2]]) + "]" for caption in record.captions]
        (folder / "Sentences" / f"{stem}.txt").write_text("\n".join(lines))
        (folder / "Annotations" / f"{stem}.xml").write_text(
            f"<annotation>{size}<object><name>1</name>{box}</object></annotation>"
        )
    return folder


def test_phrases_are_pointed_at_beside_chance_and_centre(world, data, entities):
    text = evaluate(world / "full", world / "blind", *data, "--phrases", entities)
    assert "16 phrases with boxes, 8 photos; chance 2" in text.splitlines()[0]
    rows = [line.split()[:2] for line in text.splitlines()]
    assert ["full", "alone"] in rows and ["blind", "plain"] in rows
    content = json.loads(evaluate(world / "full", *data, "--phrases", entities, "--images", 3, "--json"))
    (found,) = content["results"]
    assert (found["model"], found["photos"], found["phrases"]) == ("full", 3, 6)
    assert {"alone", "in its caption"} <= {each["name"] for each in found["maps"]}


def test_who_cannot_point_is_told_before_anything_is_extracted(world, entities):
    save_mnlm(world / "narrow", region_width=256, context_width=128)
    with pytest.raises(SmlstmError, match="cannot point at a phrase"):
        evaluate(world / "narrow", "--data", world / "scenes", "--phrases", entities)


def test_a_folder_without_phrases_is_told(world, data, tmp_path):
    with pytest.raises(SmlstmError, match="Annotations"):
        evaluate(world / "full", *data, "--phrases", tmp_path)
