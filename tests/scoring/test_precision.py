import pytest
import torch

from smlstm.errors import ConfigurationError
from smlstm.scoring import choose_precision, precision

CPU = torch.device("cpu")


def test_auto_is_bfloat16_only_where_it_is_native(monkeypatch):
    monkeypatch.delenv("SMLSTM_PRECISION")
    for flags, expected in (
        ({"avx2"}, torch.float32),
        ({"avx512f", "avx512_bf16"}, torch.bfloat16),
        ({"amx_bf16"}, torch.bfloat16),
    ):
        monkeypatch.setattr(precision, "_cpu_features", lambda flags=flags: flags)
        assert choose_precision("auto", CPU) == expected
        assert choose_precision("float32", CPU) == torch.float32
        assert choose_precision("bfloat16", CPU) == torch.bfloat16
    assert choose_precision("auto", torch.device("mps")) == torch.float32


def test_the_environment_says_what_auto_means(monkeypatch):
    monkeypatch.setattr(precision, "_cpu_features", lambda: {"avx512_bf16"})
    for named, expected in (("float32", torch.float32), ("bfloat16", torch.bfloat16), ("auto", torch.bfloat16)):
        monkeypatch.setenv("SMLSTM_PRECISION", named)
        assert choose_precision("auto", CPU) == expected
        assert choose_precision("float32", CPU) == torch.float32
    monkeypatch.setenv("SMLSTM_PRECISION", "half")
    with pytest.raises(ConfigurationError, match="SMLSTM_PRECISION=half is unknown: choose one of"):
        choose_precision("auto", CPU)
