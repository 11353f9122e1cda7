from dataclasses import replace
from pathlib import Path

import pytest

from smlstm.errors import ConfigurationError, InputError
from smlstm.evaluation.models import distinct_names, load_candidates
from tests.evaluation.made import SPEC, save_mnlm


def test_names_are_short_and_distinct():
    assert distinct_names([Path("/runs/a/mnlm/model"), Path("/runs/a/full/model")]) == ["mnlm", "full"]
    assert distinct_names([Path("/runs/a/mnlm/model"), Path("/runs/b/mnlm/model")]) == ["a/mnlm", "b/mnlm"]
    assert distinct_names([Path("/runs/mine")]) == ["mine"]


def test_a_stage_stands_for_the_model_in_it(tmp_path):
    save_mnlm(tmp_path / "stage" / "model")
    (candidate,) = load_candidates([tmp_path / "stage"])
    assert candidate.name == "stage"
    assert candidate.fingerprint == load_candidates([tmp_path / "stage" / "model"])[0].fingerprint
    other = save_mnlm(tmp_path / "other", seed=1)
    assert candidate.fingerprint != load_candidates([other])[0].fingerprint


def test_what_is_no_model_is_refused(tmp_path):
    with pytest.raises(InputError, match="does not exist"):
        load_candidates([tmp_path / "none"])
    with pytest.raises(InputError, match="not a saved model"):
        load_candidates([tmp_path])
    model = save_mnlm(tmp_path / "m")
    with pytest.raises(InputError, match="given twice"):
        load_candidates([model, tmp_path / "." / "m"])
    with pytest.raises(ConfigurationError, match="device 'gpu' cannot be used"):
        load_candidates([model], "gpu")


def test_features_of_another_backbone_or_width_are_refused(tmp_path):
    (candidate,) = load_candidates([save_mnlm(tmp_path / "m")])
    candidate.refuse_other_features(SPEC, "store")
    candidate.refuse_other_features(replace(SPEC, regions=49), "store")
    with pytest.raises(InputError, match="m was trained on features of patches, store holds those of vgg19"):
        candidate.refuse_other_features(replace(SPEC, backbone="vgg19"), "store")
    with pytest.raises(InputError, match="m reads features of context_width 8, store holds context_width 16"):
        candidate.refuse_other_features(replace(SPEC, context_width=16), "store")
    (silent,) = load_candidates([save_mnlm(tmp_path / "silent", backbone="")])
    silent.refuse_other_features(replace(SPEC, backbone="vgg19"), "store")
