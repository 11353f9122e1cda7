import pytest

from smlstm.explain.score_parts import ScoreParts


@pytest.mark.parametrize(
    ("parts", "told"),
    [
        (
            ScoreParts(1.2, 0.4),
            "Of the score, 1.600, 1.200 (75%) came from the steps and 0.400 (25%) from photo and sentence as wholes.",
        ),
        (
            ScoreParts(-0.3, 0.1),  # no share of a sum whose parts are on both sides of zero
            "Of the score, -0.200, -0.300 came from the steps and 0.100 from photo and sentence as wholes.",
        ),
        (ScoreParts(0.5, 0.0), "All of the score, 0.500, came from the steps."),
    ],
)
def test_parts_are_one_sentence(parts, told):
    assert parts.describe() == told
