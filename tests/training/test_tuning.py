"""Stages that tune a backbone, and stages that read what it then sees: real networks on small pictures."""

import csv
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from smlstm.data import FeatureSpec, FeatureStore, open_dataset
from smlstm.data.scenes import compose
from smlstm.errors import ConfigurationError, InputError
from smlstm.evaluation.feature_plan import plan_features
from smlstm.evaluation.models import load_candidates
from smlstm.matching.batch import ImageFeatures
from smlstm.matching.matcher import Matcher
from smlstm.pair import load_model
from smlstm.training import Watcher, read_config, train
from smlstm.training.checkpoint import read_checkpoint
from smlstm.training.dev import DevMetrics, dev_scores
from smlstm.training.read_examples import read_examples
from smlstm.training.tuned_features import tuned_stores
from smlstm.training.tuning import seen_through
from smlstm.vision.backbones import load_backbone
from smlstm.vision.extract import Extractor
from smlstm.vision.photo_features import PhotoReader
from smlstm.vision.tuning import Tail
from smlstm.vision.views import View
from tests.command_line import smlstm

NAME, BELOW, GRID = "efficientnet-lite0", 11, 2


def extract(backbone, photos: list[Path], out: Path) -> Path:
    with FeatureStore.open(out, FeatureSpec(**backbone.facts)) as store:
        for batch in Extractor(backbone, runtime="torch").extract((path.name, path) for path in photos):
            store.append(batch.keys, batch.regions, batch.context)
    return out


@pytest.fixture(scope="module")
def world(tmp_path_factory) -> Path:
    """Pictures with captions, and what the lower blocks make of them: as they are, augmented, and on a larger grid."""
    folder = tmp_path_factory.mktemp("pictures")
    photos = []
    with (folder / "captions.csv").open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["path", "caption", "split"])
        for number, scene in enumerate(compose(seed=4, count=28, size=64, captions=2)):
            photos.append(folder / f"{number:02}.png")
            scene.picture.save(photos[-1])
            table.writerows((photos[-1].name, caption, "train" if number < 20 else "dev") for caption in scene.captions)
    backbone = load_backbone(NAME, grid=GRID)
    extract(backbone, photos, folder / "features")
    extract(backbone.lower_part(BELOW), photos, folder / "lower")
    extract(replace(backbone, view=View(augmented=1)).lower_part(BELOW), photos[:20], folder / "lower-1")
    extract(load_backbone(NAME, grid=3).lower_part(BELOW), photos[20:], folder / "lower-3")
    extract(backbone.lower_part(BELOW - 1), photos, folder / "deeper")
    return folder


MODEL = "{ embedding_width = 16, sentence_width = 16, max_words = 16, dropout = 0.2 }"
SIZES = (
    "{ embedding_width = 16, sentence_width = 16, word_width = 16, attention_width = 12, similarity_width = 16, "
    "hidden_width = 12, max_words = 16 }"
)


def write_recipe(world: Path, folder: Path) -> Path:
    """Tune with an MNLM, then an sm-LSTM on what the tuned backbone sees, and both as a pair."""
    path = folder / "tuned.toml"
    path.write_text(
        f"""
name = "tuned"
[[data]]
dataset = "{world / "captions.csv"}"
lower = ["{world / "lower"}", "{world / "lower-1"}"]
[vocabulary]
minimum_count = 1
[stage.eyes]
kind = "mnlm"
epochs = 2
batch_size = 8
region_dropout = 0.3
warmup_steps = 2
model = {MODEL}
[stage.eyes.tuning]
learning_rate = 1e-3
[stage.smlstm]
start_from = "eyes"
epochs = 1
batch_size = 8
model = {SIZES}
[stage.smlstm.features]
of = "eyes"
[pair]
shortlist = "eyes"
""",
        encoding="utf-8",
    )
    return path


@pytest.fixture
def tuned_recipe(world, tmp_path) -> Path:
    return write_recipe(world, tmp_path)


class Noted(Watcher):
    def __init__(self):
        self.notices = []

    def notice(self, text):
        self.notices.append(text)


@pytest.fixture(scope="module")
def run(world, tmp_path_factory):
    """The whole of it, once."""
    folder = tmp_path_factory.mktemp("run")
    noted = Noted()
    # Long enough to match better than chance, or no pair could be calibrated.
    config = read_config(write_recipe(world, folder), ["stage.eyes.epochs=8", "stage.smlstm.epochs=4"])
    results = train(config, folder / "run", watcher=noted)
    assert [result.finished for result in results] == [True, True]
    return folder / "run", noted


class Impatient(Watcher):
    """Stops at a step, and at once."""

    def __init__(self, last):
        self.last = last

    def step(self, step, loss, pairs):
        if step == self.last:
            raise KeyboardInterrupt


def test_a_stage_tunes_the_upper_blocks_and_keeps_them_beside_its_model(run, world):
    folder, _ = run
    matcher = Matcher.load(folder / "eyes" / "model")
    kept = load_file(folder / "eyes" / "model" / "backbone.safetensors")
    published = load_backbone(NAME).network.state_dict()
    assert {name.split(".")[0] for name in kept} == {"blocks", "head"}
    assert {int(name.split(".")[1]) for name in kept if name.startswith("blocks")} == set(range(BELOW, 16))
    assert all(tensor.dtype is torch.float16 for tensor in kept.values())
    assert all((published[name] - tensor).abs().max() > 1e-4 for name, tensor in kept.items() if tensor.dim() == 4)
    assert matcher.config.backbone.startswith(f"{NAME}+") and matcher.config.regions == GRID * GRID
    assert (matcher.config.region_width, matcher.config.context_width) == (1280, 1280)


def test_dev_is_what_the_saved_backbone_sees(run, world):
    """The figure in the metrics is that of features extracted with what was saved."""
    folder, _ = run
    lines = [json.loads(line) for line in (folder / "eyes" / "metrics.jsonl").read_text().splitlines()]
    best = max(line["dev"]["sum"] for line in lines if "dev" in line)
    matcher = Matcher.load(folder / "eyes" / "model")
    reader = PhotoReader(matcher.config, matcher.tuned, runtime="torch")
    regions, contexts = reader.read([world / f"{number:02}.png" for number in range(20, 28)])
    stored = FeatureStore.open(folder / "features" / "eyes-grid" / "0").read([f"{n:02}.png" for n in range(20, 28)])
    np.testing.assert_allclose(stored[0], regions, atol=2e-2)
    np.testing.assert_allclose(stored[1], contexts, atol=2e-2)
    config = read_config(folder / "config.json")
    _, dev, _ = read_examples(config.data, tuned_stores(config.stage["smlstm"].features, 1, folder / "features"))
    assert DevMetrics.of(*dev_scores(matcher, dev)).sum == pytest.approx(best, abs=13)  # one rank of sixteen captions


def test_a_later_stage_reads_the_tuned_backbone_and_both_make_a_pair(run, world):
    folder, noted = run
    eyes, smlstm_ = (Matcher.load(folder / name / "model") for name in ("eyes", "smlstm"))
    assert smlstm_.config.backbone == eyes.config.backbone
    assert all(torch.equal(smlstm_.tuned[name], tensor) for name, tensor in eyes.tuned.items())
    assert any(text.startswith("smlstm starts from a trained mnlm") for text in noted.notices)
    assert [path.relative_to(folder / "pair").as_posix() for path in sorted((folder / "pair").rglob("backbone*"))] == [
        "backbone.safetensors"
    ], "it is kept once"
    pair = load_model(folder / "pair")
    regions, _ = pair.photo_reader("torch").read([world / "03.png"])
    stored, _ = FeatureStore.open(folder / "features" / "eyes-grid" / "0").read(["03.png"])
    np.testing.assert_allclose(stored, regions, atol=2e-2)
    assert Matcher.load(folder / "pair" / "reranker").tuned is not None
    assert pair.matcher().tuned is not None


def test_features_of_the_tuned_and_the_published_backbone_never_mix(run, world, tmp_path):
    folder, _ = run
    (candidate,) = load_candidates([folder / "eyes"])
    with pytest.raises(InputError, match=rf"trained on features of {NAME}\+.* holds those of {NAME}:"):
        candidate.refuse_other_features(FeatureStore.open(world / "features").spec, "there")
    done = smlstm("extract", world, "--backbone", folder / "eyes" / "model", "--out", tmp_path / "store", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["backbone"] == candidate.matcher.config.backbone
    spec = FeatureStore.open(tmp_path / "store").spec
    assert spec.weights_sha256 != load_backbone(NAME).weights_sha256
    mixed = smlstm("extract", world, "--backbone", NAME, "--grid", GRID, "--out", tmp_path / "store")
    assert mixed.returncode == 3 and '"backbone" is' in mixed.stderr
    dataset = open_dataset(world / "captions.csv")
    plans = plan_features([candidate], dataset, dataset.split("dev"), features=tmp_path / "plan")
    features = plans[candidate.matcher.config.backbone].complete()
    assert features.spec == spec
    without = smlstm("extract", world, "--backbone", candidate.matcher.config.backbone, "--out", tmp_path / "none")
    assert without.returncode == 2 and "choose one of" in without.stderr


def test_a_model_whose_backbone_is_lost_says_so(run, tmp_path):
    folder, _ = run
    lost = tmp_path / "a" / "b" / "model"
    Matcher.load(folder / "eyes" / "model").save(lost)
    (lost / "backbone.safetensors").rename(tmp_path / "elsewhere")
    with pytest.raises(InputError, match=r"has no backbone.safetensors: its model reads features of"):
        Matcher.load(lost)


def test_stopped_in_an_epoch_it_goes_on_exactly(tuned_recipe, tmp_path):
    config = read_config(tuned_recipe)
    train(config, tmp_path / "whole", stages=["eyes"])

    with pytest.raises(KeyboardInterrupt):
        settings = ["stage.eyes.checkpoint_seconds=0"]
        train(read_config(tuned_recipe, settings), tmp_path / "stopped", stages=["eyes"], watcher=Impatient(7))
    assert read_checkpoint(tmp_path / "stopped" / "eyes" / "checkpoint.pt").progress.step == 6
    train(config, tmp_path / "stopped", stages=["eyes"])
    one, other = (read_checkpoint(tmp_path / name / "eyes" / "checkpoint.pt") for name in ("whole", "stopped"))
    assert one.progress.step == other.progress.step
    for name, tensor in one.tail.items():
        assert torch.equal(tensor, other.tail[name]), name
    kept = [tmp_path / name / "eyes" / "model" / "backbone.safetensors" for name in ("whole", "stopped")]
    assert kept[0].read_bytes() == kept[1].read_bytes()


def test_dev_may_be_measured_on_a_larger_grid(tuned_recipe, world, tmp_path):
    config = read_config(tuned_recipe, [f"data.0.dev_lower={world / 'lower-3'}", f"data.0.lower={world / 'lower-1'}"])
    train(config, tmp_path / "run", stages=["eyes"])
    assert Matcher.load(tmp_path / "run" / "eyes" / "model").config.regions == 9


def test_data_without_dev_need_no_photos_as_they_are(tuned_recipe, world, tmp_path):
    """One more dataset that is only there to learn from, in augmented views, beside a dev of another grid."""
    settings = [f"data.0.dev_lower={world / 'lower-3'}", f"data.0.lower={world / 'lower-1'}"]
    text = tuned_recipe.read_text()
    more = text[text.index("[[data]]") : text.index("[vocabulary]")]
    tuned_recipe.write_text(text.replace(more, more + more, 1))
    settings += [f"data.1.lower={world / 'lower-1'}", "data.1.dev=false"]
    train(read_config(tuned_recipe, settings), tmp_path / "run", stages=["eyes"])
    assert Matcher.load(tmp_path / "run" / "eyes" / "model").config.regions == 9


def test_the_backbones_gradient_is_clipped_by_itself(tuned_recipe, tmp_path, monkeypatch):
    clipped = []
    clip = torch.nn.utils.clip_grad_norm_
    monkeypatch.setattr(
        torch.nn.utils,
        "clip_grad_norm_",
        lambda part, most: clipped.append((len(part), most)) or clip(part, most),
    )
    train(read_config(tuned_recipe, ["stage.eyes.epochs=1", "stage.eyes.clip=0.5"]), tmp_path / "run", stages=["eyes"])
    matcher = Matcher.load(tmp_path / "run" / "eyes" / "model")
    assert set(clipped) == {(len(list(matcher.parameters())), 0.5), (len(matcher.tuned), 0.5)}


@pytest.mark.parametrize("cells", [16, 400])
def test_in_bfloat16_small_grids_are_seen_through_as_products(cells, monkeypatch):
    torch.manual_seed(0)
    tail = Tail(load_backbone(NAME, grid=GRID), BELOW)
    lower = ImageFeatures(torch.randn(2, cells, 112), torch.zeros(2, 1))
    expected = seen_through(tail, lower)
    used = []
    products = tail.in_products
    monkeypatch.setattr(tail, "in_products", lambda *given: used.append(given[1]) or products(*given))
    with torch.autocast("cpu", torch.bfloat16):
        found = seen_through(tail, lower)
    assert used == ([torch.bfloat16] if cells == 16 else []), "of large grids the zeros cost more than they save"
    for one, other in zip((found.regions, found.context), (expected.regions, expected.context), strict=True):
        assert (one.float() - other).abs().mean() < 0.06 * other.abs().mean()


def test_tuning_goes_on_from_what_was_tuned(run, tuned_recipe, tmp_path):
    folder, _ = run
    settings = [f"stage.eyes.start_from={folder / 'eyes' / 'model'}", "stage.eyes.epochs=1"]
    noted = Noted()
    quiet = [*settings, "stage.eyes.tuning.learning_rate=1e-12", "stage.eyes.learning_rate=1e-12"]
    train(read_config(tuned_recipe, quiet), tmp_path / "on", stages=["eyes"], watcher=noted)
    assert any(text.endswith("backbone") for text in noted.notices)
    before, after = (load_file(each / "eyes" / "model" / "backbone.safetensors") for each in (folder, tmp_path / "on"))
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_a_backbone_that_does_not_learn_stays_the_tuned_one(run, tuned_recipe, tmp_path):
    folder, _ = run
    settings = [
        f"stage.smlstm.start_from={folder / 'eyes' / 'model'}",
        "stage.smlstm.tuning.learning_rate=0",
        "stage.smlstm.phrases=1",
        'stage.smlstm.model.modulation="paired"',
    ]
    recipe = tuned_recipe.read_text().replace('[stage.smlstm.features]\nof = "eyes"\n', "")
    tuned_recipe.write_text(recipe)
    train(read_config(tuned_recipe, settings), tmp_path / "on", stages=["smlstm"])
    found, before = Matcher.load(tmp_path / "on" / "smlstm" / "model"), Matcher.load(folder / "eyes" / "model")
    assert found.config.backbone == before.config.backbone
    assert all(torch.equal(found.tuned[name], tensor) for name, tensor in before.tuned.items())


def test_features_are_made_anew_when_the_backbone_is_another(run, tuned_recipe, tmp_path):
    config = read_config(tuned_recipe, ["stage.eyes.epochs=1", "stage.smlstm.checkpoint_seconds=0"])
    train(config, tmp_path / "run", stages=["eyes"])
    with pytest.raises(KeyboardInterrupt):
        train(config, tmp_path / "run", stages=["smlstm"], watcher=Impatient(3))
    first = FeatureStore.open(tmp_path / "run" / "features" / "eyes-grid" / "0").spec.backbone
    other = read_config(tuned_recipe, ["seed=1", "stage.eyes.epochs=1"])
    train(other, tmp_path / "run", stages=["eyes"], fresh=True)
    with pytest.raises(ConfigurationError, match=r"smlstm was trained on features of .* --fresh --stage smlstm"):
        train(config, tmp_path / "run", stages=["smlstm"])
    assert FeatureStore.open(tmp_path / "run" / "features" / "eyes-grid" / "0").spec.backbone != first


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["stage.smlstm.features.of=other"], 'features.of: "other" is no earlier stage that tunes; those are: eyes'),
        (["data.0.lower=[]"], "data.0.lower: is missing, and stage eyes reads it"),
        (["stage.more.kind=mnlm"], "data.0.features: is missing, and stage more reads it"),
        (["stage.smlstm.tuning.learning_rate=1e-4"], "leave `features` out"),
    ],
)
def test_what_does_not_go_together_is_said(tuned_recipe, settings, message):
    with pytest.raises(ConfigurationError, match=message):
        read_config(tuned_recipe, settings)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("data.0.lower={features}", "features of all blocks of efficientnet-lite0: tuning starts from lower blocks"),
        ("data.0.lower={lower-1}", "no photos as they are to measure dev on: give data.0.dev_lower"),
        ("data.0.dev_lower={deeper}", "but for the grid"),
    ],
)
def test_lower_features_that_do_not_fit_are_refused(tuned_recipe, world, tmp_path, setting, message):
    place = setting.partition("{")[2].rstrip("}")
    setting = setting.replace(f"{{{place}}}", str(world / place))
    with pytest.raises(InputError, match=message):
        train(read_config(tuned_recipe, [setting]), tmp_path / "run", stages=["eyes"])
