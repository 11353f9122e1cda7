import pytest

from smlstm.explain.score_parts import ScoreParts


@pytest.mark.parametrize(
    ("parts", "told"),
    [
        (
            ScoreParts(1.2, 0.4),
            "The score is 1.600: 1.200 (75%) from the steps, 0.400 (25%) from photo and sentence as wholes.",
        ),
        (
            ScoreParts(-0.3, 0.1),  # no share of a sum whose parts are on both sides of zero
            "The score is -0.200: -0.300 from the steps, 0.100 from photo and sentence as wholes.",
        ),
        (ScoreParts(0.5, 0.0), "The score is 0.500, all of it from the steps."),
    ],
)
def test_parts_are_one_sentence(parts, told):
    assert parts.describe() == told
