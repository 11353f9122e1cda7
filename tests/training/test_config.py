"""A configuration file: what it fills in, and how it is refused."""

from pathlib import Path

import pytest

from smlstm.data import FeatureSpec
from smlstm.errors import ConfigurationError
from smlstm.matching.matcher import Matcher
from smlstm.reproduce.config import read_reproduce_config
from smlstm.saving import KINDS
from smlstm.text import Vocabulary
from smlstm.training import read_config
from smlstm.training.transfer import start_from_model


def test_all_problems_are_shown_together_with_their_fields(recipe):
    wrong = [
        "seed=-1",
        "stage.mnlm.epochs=0",
        "stage.mnlm.epoch=3",
        "stage.smlstm.kind=lstm",
        "stage.smlstm.objective.margin=-2",
    ]
    with pytest.raises(ConfigurationError) as refused:
        read_config(recipe, wrong)
    text = str(refused.value)
    assert "5 problems" in text
    for line in ("seed: ", "stage.mnlm.epochs: ", "stage.mnlm.epoch: there is no such setting"):
        assert line in text
    assert "stage.smlstm.kind: known kinds are dvsa, mnlm, oem, scan, sm-lstm, vse++" in text
    assert "(found -2)" in text


def test_model_settings_are_checked_before_any_feature_is_read(recipe):
    with pytest.raises(ConfigurationError, match=r"stage\.mnlm\.model: dropout: .*less than 1"):
        read_config(recipe, ["stage.mnlm.model.dropout=2"])
    with pytest.raises(ConfigurationError, match="region_width comes from the features"):
        read_config(recipe, ["stage.mnlm.model.region_width=512"])


def test_a_stage_is_filled_from_its_preset_and_its_kind(recipe):
    config = read_config(recipe, ["stage.scan={}", "stage.big={preset='paper'}"])
    assert config.stage["mnlm"].kind == "mnlm"
    assert config.stage["mnlm"].objective.regulariser == 0
    assert config.stage["smlstm"].model["modulation"] == "gated"
    assert config.stage["scan"].objective.form == "hardest", "a baseline is trained with its own paper's objective"
    assert config.stage["big"].model["hidden_width"] == 1024
    assert config.stage["big"].kind == "sm-lstm"


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("stage.mnlm.objective.negatives=5", "go together"),
        ("stage.mnlm.negatives=uniform", "go together"),
        ("stage.smlstm.start_from=nowhere", "neither an earlier stage"),
        ("stage.mnlm", "key=value"),
        ("data.7.dataset=x", 'no "7" to set'),
    ],
)
def test_what_does_not_fit_together_is_refused(recipe, setting, message):
    with pytest.raises(ConfigurationError, match=message):
        read_config(recipe, [setting])


def test_what_was_taken_out_is_said_in_a_sentence_each(recipe):
    gone = [
        "stage.mnlm.ema=0.9",
        "stage.mnlm.negatives=mined",
        "stage.mnlm.mined_group=4",
        "stage.smlstm.model.feature_scale=none",
        "stage.smlstm.model.context_words=learned",
        "stage.smlstm.objective.regulariser_scale=sum",
        "data.0.cropped=['crops']",
        "vectors={}",
        "pair.reranker=['smlstm', 'mnlm']",
        "reproduce.rivals=['scan']",
    ]
    with pytest.raises(ConfigurationError) as refused:
        read_reproduce_config(recipe, [*gone, "stage.mnlm.epochs=0"])
    text = str(refused.value)
    assert "11 problems" in text and "stage.mnlm.epochs: " in text, "with whatever else is wrong"
    for setting in gone:
        assert f"  - {setting.partition('=')[0]}: " in text
    assert "stage.mnlm.ema: `ema` was taken out in 0.2: weights are not averaged" in text
    assert "reproduce.rivals: `rivals` has another name since 0.2: `baselines`" in text
    assert "no such setting" not in text


def test_a_file_that_names_them_as_they_always_were_is_read(recipe):
    """Such as the config.json of a run, which names every setting."""
    same = ["ema=0.0", "decay=cosine", "model.feature_scale=rms", "objective.regulariser_scale=mean"]
    settings = [f"stage.smlstm.{setting}" for setting in same]
    assert read_config(recipe, [*settings, "data.0.cropped=[]"]) == read_config(recipe)


def test_paths_are_looked_up_beside_the_file(recipe, scenes, monkeypatch):
    monkeypatch.setenv("SCENES", str(scenes))
    config = read_config(recipe, ["data.0.dataset=$SCENES/captions.csv"])
    assert config.data[0].dataset == (scenes / "captions.csv").resolve()


def test_files_that_are_no_configuration_are_refused(tmp_path):
    with pytest.raises(ConfigurationError, match="does not exist"):
        read_config(tmp_path / "none.toml")
    (tmp_path / "broken.toml").write_text("name = ")
    with pytest.raises(ConfigurationError, match="is not TOML"):
        read_config(tmp_path / "broken.toml")


def test_every_setting_says_what_it_is_for():
    from smlstm.training.config import RunConfig, StageConfig, VocabularyConfig  # noqa: PLC0415
    from smlstm.training.data_config import DataConfig  # noqa: PLC0415

    for part in (DataConfig, VocabularyConfig, StageConfig):
        assert all(field.description for field in part.model_fields.values()), part
    assert RunConfig.model_fields["seed"].description


RECIPES = sorted((Path(__file__).parents[2] / "configs").glob("*.toml"))


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_the_recipes_that_come_with_smlstm_fit_together(path):
    """Every stage can be built, and takes something over from every model that it starts from."""
    read = read_reproduce_config if path.stem.startswith("reproduce") else read_config
    config = read(path)
    vocabulary = Vocabulary.build(["a dog runs"])
    built: dict[str, Matcher] = {}
    for name, stage in config.stage.items():
        spec = FeatureSpec("efficientnet-lite2", "0" * 64, "none", 100, 1280, 1280)
        built[name] = KINDS[stage.kind](stage.matcher_config(spec), vocabulary)
        for source in stage.sources:
            assert start_from_model(built[name], built[source])
    if config.pair is not None:
        assert {config.pair.shortlist, config.pair.reranker} <= set(built)


@pytest.mark.parametrize(("name", "text"), [("deep.toml", "a = " + "[" * 5000), ("deep.json", "[" * 200_000)])
def test_values_nested_without_end_are_refused_in_a_sentence(tmp_path, name, text):
    (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(ConfigurationError, match=rf"{name} is not {name[-4:].upper()}"):
        read_config(tmp_path / name)
