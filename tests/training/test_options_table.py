"""docs/options.md lists every option, each with its meaning and with someone who uses it."""

import difflib

from smlstm.saving import KINDS
from smlstm.training.config import FROM_FEATURES, TRAINABLE
from tests.training.options_table import PAGE, SECTIONS, table, undescribed, unused


def test_the_page_is_the_table():
    found, expected = PAGE.read_text(encoding="utf-8"), table()
    different = difflib.unified_diff(
        found.splitlines(), expected.splitlines(), "docs/options.md", "fields", lineterm=""
    )
    assert found == expected, "python -m tests.training.options_table writes it anew:\n" + "\n".join(different)


def test_every_option_has_a_meaning_and_a_user():
    assert undescribed() == []
    assert unused() == [], "options that nobody uses go"


def test_no_kind_of_matcher_is_left_out():
    listed = {kind for _, kind, _, _ in SECTIONS}
    for name in TRAINABLE:
        config_type = KINDS[name].config_type
        known = {field for base in config_type.__mro__ if base in listed for field in base.model_fields}
        assert set(config_type.model_fields) <= known | set(FROM_FEATURES), name
