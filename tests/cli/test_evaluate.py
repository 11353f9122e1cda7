import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.evaluation.made import SPEC, noisy, save_mnlm, save_smlstm, write_scenes
from typer.testing import CliRunner

import smlstm.cli.evaluate  # noqa: F401 - registers the command
from smlstm.cli import app
from smlstm.data import FeatureStore
from smlstm.errors import SmlstmError
from smlstm.evaluation import both_ways, ranks
from smlstm.evaluation.gallery import Gallery
from smlstm.evaluation.matrices import reserve
from smlstm.evaluation.models import Candidate
from smlstm.matching.matcher import Matcher
from smlstm.scoring import Cascade, Stored, score_all


def evaluate(*arguments: object) -> str:
    """What the command prints; an expected failure is raised."""
    done = CliRunner().invoke(app, ["evaluate", *map(str, arguments)])
    if done.exception is not None:
        raise done.exception
    return done.stdout


@pytest.fixture(scope="module")
def world(tmp_path_factory) -> Path:
    folder = write_scenes(tmp_path_factory.mktemp("world"))
    save_mnlm(folder / "models" / "mnlm")
    save_smlstm(folder / "models" / "full")
    (folder / "ratings.txt").write_text(
        "".join(f"{n:03}.png\t{n + 1:03}.png#1\t{1 + n % 4}\t{1 + n % 3}\t{1 + n % 2}\n" for n in range(4, 12))
        + "004.png\t004.png#0\t4\t4\t4\n"
    )
    return folder


@pytest.fixture(scope="module")
def data(world) -> tuple[object, ...]:
    return "--data", world / "captions.csv", "--features", world / "features"


def test_a_model_is_measured_as_by_hand(world, data):
    content = json.loads(evaluate(world / "models" / "mnlm", *data, "--json"))
    assert (content["images"], content["captions"], content["split"], content["comparisons"]) == (12, 24, "dev", [])
    store = FeatureStore.open(world / "features")
    lines = [line.split(",") for line in (world / "captions.csv").read_text().splitlines()[9:]]
    scores = score_all(
        Matcher.load(world / "models" / "mnlm"), Stored(store, range(4, 16)), [",".join(line[1:-1]) for line in lines]
    )
    expected = both_ways(ranks(scores, np.repeat(np.arange(12), 2)))
    (result,) = content["results"]
    assert result["model"] == "mnlm"
    assert result["sum"] == pytest.approx(expected.sum)
    assert result["retrieval"]["mrr"] == pytest.approx(expected.retrieval.mrr)


def test_several_models_their_ensemble_and_tests(world, data):
    models = [world / "models" / name for name in ("mnlm", "full")]
    content = json.loads(evaluate(*models, *data, "--json"))
    assert [result["model"] for result in content["results"]] == ["mnlm", "full", "sum of 2"]
    assert [(each["model"], each["against"]) for each in content["comparisons"]] == [
        ("full", "mnlm"),
        ("sum of 2", "mnlm"),
    ]
    every = json.loads(evaluate(*models, *data, "--json", "--compare", "--ensemble", "standardised", "--images", 5))
    assert every["images"] == 5
    assert [result["model"] for result in every["results"]][-1] == "standardised of 2"
    assert len(every["comparisons"]) == 3
    alone = json.loads(evaluate(*models, *data, "--json", "--ensemble", "none"))
    assert len(alone["results"]) == 2
    text = evaluate(*models, *data)
    assert text.startswith("captions dev: 12 images, 24 captions\nmodel     way ")
    assert "\nsum of 2 - mnlm: Sum " in text


def test_a_cascade_ranks_a_shortlist_and_the_rest_below_it(world, data):
    whole = world / "models" / "whole"
    save_smlstm(whole, global_score=True)
    own = json.loads(evaluate(whole, *data, "--json", "--cascade", "24,12"))["results"]
    assert own == json.loads(evaluate(whole, *data, "--json"))["results"], "everything is on the lists"
    mnlm, full = world / "models" / "mnlm", world / "models" / "full"
    short = json.loads(evaluate(full, whole, *data, "--json", "--cascade", 3, "--shortlister", mnlm))
    assert [result["model"] for result in short["results"]] == ["full", "whole"], "nothing is added up"
    store = FeatureStore.open(world / "features")
    lines = [line.split(",") for line in (world / "captions.csv").read_text().splitlines()[9:]]
    cascade = Cascade(Matcher.load(mnlm), Matcher.load(full), 3)
    scores = score_all(cascade, Stored(store, range(4, 16)), [",".join(line[1:-1]) for line in lines])
    expected = both_ways(ranks(scores, np.repeat(np.arange(12), 2)))
    assert short["results"][0]["sum"] == pytest.approx(expected.sum)
    assert short["results"][0]["retrieval"]["mean"] == pytest.approx(expected.retrieval.mean)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["full", "--cascade", "3"], "this sm-lstm has no global score"),
        (["full", "--cascade", "3,0"], 'numbers above 0, such as 100 or 100,50, not "3,0"'),
        (["full", "--cascade", "many"], 'not "many"'),
        (["full", "--cascade", "3", "--save", "m"], "--save says nothing beside --cascade"),
        (["full", "--cascade", "3", "--ensemble", "sum"], "--ensemble says nothing beside --cascade"),
        (["full", "--shortlister", "mnlm"], "--shortlister goes with --cascade K"),
    ],
)
def test_a_cascade_that_cannot_be_is_refused(world, data, monkeypatch, arguments, message):
    monkeypatch.setattr("smlstm.evaluation.evaluate.score_all", None)
    monkeypatch.chdir(world / "models")
    with pytest.raises(SmlstmError, match=message):
        evaluate(*arguments, *data)


def test_terms_stand_beside_the_model(world, data):
    folder = world / "models" / "terms"
    save_smlstm(folder, global_score=True, instance_score=True)
    (whole,) = json.loads(evaluate(folder, *data, "--json"))["results"]
    found = json.loads(evaluate(folder, *data, "--json", "--terms"))
    assert found["results"][0] == whole
    assert [row["model"] for row in found["results"][1:]] == [
        f"terms: {part}" for part in ("steps", "global", "instances", "steps and instances")
    ]
    assert {each["against"] for each in found["comparisons"]} == {"terms"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["full", "--terms"], "full has a score of one term"),
        (["mnlm", "--terms"], r"mnlm has a score of one term \(mnlm\): --terms is for an sm-lstm with global_score"),
        (["full", "--terms", "--save", "m"], "--save says nothing beside --terms"),
        (["full", "--terms", "--cascade", "3"], "--cascade says nothing beside --terms"),
        (["full", "--terms", "--attention"], "--terms says nothing beside --attention"),
    ],
)
def test_terms_that_cannot_be_are_refused(world, data, monkeypatch, arguments, message):
    monkeypatch.setattr("smlstm.evaluation.evaluate.score_all", None)
    monkeypatch.chdir(world / "models")
    with pytest.raises(SmlstmError, match=message):
        evaluate(*arguments, *data)


def test_saved_matrices_give_the_same_table_later(world, data, tmp_path):
    models = [world / "models" / name for name in ("mnlm", "full")]
    direct = evaluate(*models, *data, "--save", tmp_path / "m")
    assert sorted(path.name for path in (tmp_path / "m").iterdir()) == [
        "full.json",
        "full.npy",
        "mnlm.json",
        "mnlm.npy",
    ]
    assert evaluate("--matrices", tmp_path / "m" / "mnlm.npy", tmp_path / "m" / "full.npy") == direct
    written = (tmp_path / "m" / "full.npy").stat().st_mtime_ns
    assert evaluate(*models, *data, "--save", tmp_path / "m") == direct
    assert (tmp_path / "m" / "full.npy").stat().st_mtime_ns == written, "what is scored is not scored again"
    with pytest.raises(SmlstmError, match="is of another model, other images"):
        evaluate(*models, *data, "--images", 5, "--save", tmp_path / "m")


def test_a_store_as_data_takes_its_captions_from_a_dataset(world, data):
    model = world / "models" / "mnlm"
    swapped = evaluate(model, "--data", world / "features", "--captions", world / "captions.csv")
    assert swapped == evaluate(model, *data)
    with pytest.raises(SmlstmError, match="is a feature store, which has no captions: give the dataset as --captions"):
        evaluate(model, "--data", world / "features")


def test_the_table_as_it_is_printed(tmp_path):
    image_of = np.repeat(np.arange(20), 2)
    captions = tuple(f"dog {n}" for n in range(40))
    gallery = Gallery("scenes", "test", tuple(f"{n}.jpg" for n in range(20)), captions, image_of)
    for name, scores in (("flat", np.zeros((20, 40), np.float32)), ("sharp", noisy(20, 2, 99.0, 0)[0])):
        np.save(reserve(tmp_path, Candidate(name, None, name), gallery, SPEC, "float32"), scores)
    text = evaluate("--matrices", tmp_path / "flat.npy", tmp_path / "sharp.npy", "--ensemble", "none")
    assert [line.rstrip() for line in text.splitlines()] == [
        "scenes test: 20 images, 40 captions",
        "model  way    R@1    R@5   R@10  Med r  mean r    MRR    Sum    95% interval",
        "flat   i2t    0.0    0.0    0.0   39.0    39.0  0.026    0.0      0.0 to 0.0",
        "       t2i    0.0    0.0    0.0   20.0    20.0  0.050",
        "sharp  i2t  100.0  100.0  100.0    1.0     1.0  1.000  600.0  600.0 to 600.0",
        "       t2i  100.0  100.0  100.0    1.0     1.0  1.000",
        "sharp - flat: Sum +600.0, 95% +600.0 to +600.0, p 0.0005",
    ]
    with pytest.raises(SmlstmError, match="20 images cannot be cut into folds of 1000"):
        evaluate("--matrices", tmp_path / "flat.npy", "--protocol", "folds")


def test_agreement_with_people(world, data):
    models = [world / "models" / name for name in ("mnlm", "full")]
    arguments = (*models, *data, "--judgement", world / "ratings.txt")
    text = evaluate(*arguments)
    assert text.startswith("expert ratings: 8 pairs, 24 ratings; 1 pairs left out (the image's own captions)\nmodel ")
    content = json.loads(evaluate(*arguments, "--json"))
    assert [row["model"] for row in content["results"]] == ["mnlm", "full", "sum of 2"]
    assert all(-1 <= row[key] <= 1 for row in content["results"] for key in ("kendall_b", "kendall_c", "spearman"))
    with pytest.raises(SmlstmError, match='line 1: "1" is no share of yes|line 2: "2" is no share'):
        evaluate(*arguments, "--kind", "crowd")


def never(*_: object, **__: object) -> None:
    raise AssertionError("scoring began")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--data", "{w}/captions.csv", "--features", "{w}/features"), r"of efficientnet-lite2\+\w+, .* of patches"),
        (("{w}/models/mnlm",), "--data is missing"),
        (("{w}/models/mnlm", "--data", "{w}/captions.csv", "--split", "test"), 'no "test" split; it has train, dev'),
        (("{w}/models/mnlm", "--data", "{w}/photos"), 'no "dev" split; it has train'),
        (("{w}/models/mnlm", "--data", "{w}/photos", "--split", "train"), "no captions in its train split"),
        (("{w}/models/mnlm", "--data", "{w}/none"), "does not exist"),
        (("{w}/models/vgg", "--data", "{w}/captions.csv", "--features", "{w}/features"), "of vgg19, .* of patches"),
        (("{w}/models/wide", "--data", "{w}/captions.csv", "--features", "{w}/features"), "region_width 16"),
        (("{w}/models/lite", "--data", "{w}/captions.csv"), "12 of 12 photos are not there, the first is"),
        (("{w}/models/mnlm", "--data", "{w}/captions.csv", "--protocol", "folds"), "12 images cannot be cut into"),
        (("{w}/a.npy", "--matrices", "--data", "{w}/captions.csv"), "--data says nothing beside --matrices"),
        (("{w}/a.npy", "--matrices", "--split", "dev"), "--split says nothing beside --matrices"),
        (("{w}/a.npy", "--matrices", "--precision", "bfloat16"), "--precision says nothing beside --matrices"),
        (("{w}/models/mnlm", "--data", "{w}/captions.csv", "--kind", "crowd"), "--kind goes with --judgement"),
        (("{w}/models/mnlm", "--data", "{w}/captions.csv", "--captions", "{w}"), "goes with a feature store"),
    ],
)  # fmt: skip
def test_bad_input_is_refused_before_anything_is_scored(world, monkeypatch, arguments, message):
    if not (world / "photos").exists():
        save_mnlm(world / "models" / "vgg", backbone="vgg19")
        save_mnlm(world / "models" / "wide", region_width=16)
        save_mnlm(world / "models" / "lite", backbone="efficientnet-lite0", region_width=1280, context_width=1280)
        (world / "photos").mkdir()
        (world / "photos" / "a.jpg").touch()
    monkeypatch.setattr("smlstm.evaluation.evaluate.score_all", never)
    monkeypatch.setattr("smlstm.evaluation.feature_plan.Extractor", never)
    with pytest.raises(SmlstmError, match=message):
        evaluate(*(argument.format(w=world) for argument in arguments))


@pytest.mark.slow
def test_photos_are_extracted_with_the_models_backbone(tmp_path, monkeypatch):
    monkeypatch.setenv("SMLSTM_CACHE", str(tmp_path / "cache"))
    world = write_scenes(tmp_path / "world", train=1, dev=3, photos=True)
    widths = {"region_width": 1280, "context_width": 1280}
    model = save_mnlm(tmp_path / "model", backbone="efficientnet-lite0", **widths)
    arguments = (model, "--data", world / "captions.csv", "--grid", 2)
    first = evaluate(*arguments)
    monkeypatch.setattr("smlstm.evaluation.feature_plan.Extractor", never)
    assert evaluate(*arguments) == first
    (store,) = (place for place in (tmp_path / "cache" / "features").iterdir() if place.is_dir())
    assert store.name.startswith("captions-efficientnet-lite0-4-")


@pytest.mark.slow
def test_failures_are_one_sentence_and_a_stable_code(world):
    command = [sys.executable, "-c", "from smlstm.cli import main; main()", "evaluate", str(world / "models" / "mnlm")]
    done = subprocess.run([*command, "--data", str(world / "none")], capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert done.stdout == ""
    assert done.stderr == f"smlstm: {world / 'none'} does not exist\n"
