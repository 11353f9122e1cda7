import pytest

from smlstm.errors import ConfigurationError
from smlstm.reproduce import make_plan, read_reproduce_config
from smlstm.reproduce.plan import PARTS, chosen_parts


def plan_of(recipe, *settings):
    return make_plan(read_reproduce_config(recipe, settings))


def test_each_run_differs_from_the_base_in_one_setting(recipe):
    plan = plan_of(recipe)
    base = plan.config.stage["smlstm"].model_dump()
    for name, part, setting in (
        ("mean", "model", "variant"),
        ("steps-1", "model", "steps"),
        ("lambda-100", "objective", "regulariser"),
        ("joint", "model", "modulation"),
    ):
        stage = plan.config.stage[name].model_dump()
        different = [(key, inner) for key in base if isinstance(base[key], dict) for inner in base[key]
                     if base[key][inner] != stage[key][inner]]  # fmt: skip
        assert different == [(part, setting)]
        assert {key: value for key, value in stage.items() if not isinstance(value, dict)} == {
            key: value for key, value in base.items() if not isinstance(value, dict)
        }


def test_a_point_that_is_the_base_is_trained_once(recipe):
    plan = plan_of(recipe)
    shared = {("variants", "full"), ("steps", "3"), ("lambdas", "1"), ("modulations", "gated")}
    assert {(each.part, each.value) for each in plan.points if each.run == "smlstm"} == {
        *shared,
        ("comparisons", "product"),
    }
    expected = ["mnlm", "smlstm", "mean", "att", "ctx", "steps-1", "lambda-100", "joint", "vsepp", "scan"]
    assert plan.runs() == expected == list(plan.config.stage)


def test_by_default_the_sweeps_are_the_papers(recipe, tmp_path):
    text = recipe.read_text()
    (tmp_path / "whole.toml").write_text(text[: text.index("[reproduce]")] + '[reproduce]\nsplit = "dev"\n')
    plan = plan_of(tmp_path / "whole.toml")
    assert [point.value for point in plan.of("steps")] == ["1", "2", "3", "4", "5"]
    assert [point.value for point in plan.of("lambdas")] == ["0", "1", "10", "100", "1000"]
    assert [point.value for point in plan.of("modulations")] == ["gated", "joint", "separate"]
    assert [point.value for point in plan.of("baselines")] == ["oem", "vse++", "dvsa", "scan"]


def test_rivals_have_their_own_objective_and_the_budget_of_their_like(recipe):
    plan = plan_of(recipe, "stage.smlstm.learning_rate=0.007")
    scan, vsepp, base, mnlm = (plan.config.stage[name] for name in ("scan", "vsepp", "smlstm", "mnlm"))
    assert (scan.objective.form, vsepp.objective.form) == ("hardest", "hardest")
    assert (scan.learning_rate, scan.epochs, scan.start_from) == (0.007, base.epochs, "mnlm")
    assert (vsepp.epochs, vsepp.start_from) == (mnlm.epochs, None)
    assert scan.model["sentence_width"] == base.model["sentence_width"]
    own = plan_of(recipe, "stage.scan.epochs=7", "stage.scan.batch_size=8")
    assert own.config.stage["scan"].epochs == 7
    assert own.run("baselines", "scan") == "scan"


def test_parts_bring_what_they_start_from(recipe):
    plan = plan_of(recipe)
    assert plan.runs(["steps"]) == ["mnlm", "smlstm", "steps-1"]
    assert plan.runs(["baselines"]) == ["mnlm", "vsepp", "scan"]
    assert plan.runs(["attention"]) == ["mnlm", "smlstm", "att"]
    assert chosen_parts(["baselines", " steps"]) == ("steps", "baselines")
    assert chosen_parts(None) == PARTS
    with pytest.raises(ConfigurationError, match='no part "stepz" to reproduce; parts are variants, steps'):
        chosen_parts(["stepz"])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["reproduce.steps=[0]"], r"reproduce\.steps\.0: input should be greater than 0"),
        (["reproduce.variants=['half']"], r"reproduce\.variants\.0"),
        (["reproduce.stepss=[1]"], r"reproduce\.stepss: there is no such setting"),
        (["stage.other.kind=sm-lstm"], "one stage of kind sm-lstm, not 2"),
        (["stage.joint.kind=scan"], 'the run "joint" would have the name of a stage'),
        (["stage.oem.epochs=3"], "stage.oem: no run of the reproduction is of kind oem"),
    ],
)
def test_what_cannot_be_is_refused_with_its_name(recipe, settings, message):
    with pytest.raises(ConfigurationError, match=message):
        plan_of(recipe, *settings)
