import pytest
from pydantic import ValidationError

from smlstm.model import SMLSTM, compact, paper
from smlstm.text import Vocabulary


def test_paper_preset_has_the_papers_values():
    preset = paper()
    model, objective = preset.model, preset.objective
    assert (preset.regions, model.region_width, model.context_width) == (196, 512, 4096)
    assert (model.max_words, model.word_width, model.sentence_width) == (50, 1024, 1024)
    assert (model.hidden_width, model.steps) == (1024, 3)
    assert (objective.margin, objective.regulariser, objective.negatives) == (0.2, 100, 100)
    assert preset.baseline.sentence_width == 1024


def test_compact_preset_is_small():
    sizes = {
        name: sum(p.numel() for p in SMLSTM(preset.model, Vocabulary(tuple("abc"))).parameters())
        for name, preset in (("paper", paper()), ("compact", compact()))
    }
    assert sizes["compact"] * 4 < sizes["paper"]


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"variant": "most"}, "variant"),
        ({"modulation": "none"}, "modulation"),
        ({"steps": 0}, "steps"),
        ({"word_width": 7}, "word_width"),
        ({"dropout": 1.0}, "dropout"),
        ({"image_pooling": "max"}, "global_score"),
        ({"colour": 1}, "colour"),
    ],
)
def test_what_does_not_fit_is_named(change, named):
    with pytest.raises(ValidationError, match=named):
        type(paper().model).model_validate({**paper().model.model_dump(), **change})
