"""Pointing at phrases."""

import json

import numpy as np
import pytest
import torch

from smlstm.data.entities import Phrase, PhrasedCaption, PhrasedPhoto
from smlstm.errors import InputError
from smlstm.evaluation.phrases import _named, asked_phrases, can_point, measure_phrases, peak_box
from smlstm.matching.batch import ImageFeatures, Saliency
from tests.scoring import made

SIDE = 3


class Pointer(torch.nn.Module):
    """Looks at the region whose number is the number of letters of the step's word; a step a word, two at most."""

    kind = "pointer"
    attends = True

    def encode_images(self, features):
        return features

    def encode_sentences(self, sentences):
        return list(sentences)

    def attend(self, images, sentences, pairs):
        longest = max(len(each.split()) for each in sentences)
        image, sentence = torch.zeros(len(pairs), 2, SIDE * SIDE), torch.zeros(len(pairs), 2, longest)
        for row, (_, place) in enumerate(pairs.tolist()):
            words = sentences[place].split()
            for step in range(2):
                word = min(step, len(words) - 1)
                image[row, step, len(words[word]) - 1] = 1.0
                sentence[row, step, word] = 1.0
        return Saliency(image, sentence, torch.zeros(len(pairs), 2))


def photo(*captions: tuple[str, list[tuple[int, int, tuple[int, int, int, int]]]]) -> PhrasedPhoto:
    found = []
    for text, phrases in captions:
        words = text.split()
        found.append(
            PhrasedCaption(text, tuple(Phrase(" ".join(words[a:b]), ("other",), a, b, (box,)) for a, b, box in phrases))
        )
    return PhrasedPhoto((30, 30), tuple(found))


def read(places):
    return ImageFeatures(torch.zeros(len(places), SIDE * SIDE, 4), torch.zeros(len(places), 4))


def test_hits_are_counted_alone_and_within_the_caption():
    # "a" is one letter: region 0, top left; "bbbbb" five: region 4, the middle.
    photos = [
        photo(("a bbbbb", [(0, 1, (0, 0, 10, 10)), (1, 2, (0, 0, 10, 10))])),
        photo(("bbbbb a", [(0, 1, (10, 10, 20, 20))])),
    ]
    found = measure_phrases(Pointer(), photos, read)
    assert (found.phrases, found.photos) == (3, 2)
    maps = {each.name: each for each in found.maps}
    assert maps["alone"].hits.value == pytest.approx(2 / 3)
    assert maps["in its caption"].hits.value == pytest.approx(2 / 3)
    assert maps["alone"].inside.value == pytest.approx(2 / 3)
    assert found.chance == pytest.approx(1 / 9, abs=0.02)
    assert found.centre == pytest.approx(1 / 3)  # of the three, one box lies over the middle
    assert found.captions_covered == pytest.approx((1 / 2 + 1) / 2)
    json.dumps(found.to_dict())


def test_nothing_to_point_at_is_said():
    with pytest.raises(InputError, match="no phrase"):
        asked_phrases([PhrasedPhoto((3, 3), (PhrasedCaption("a", ()),))], 3)


def test_the_box_around_a_peak():
    grid = np.zeros((4, 4))
    grid[1, 1], grid[1, 2], grid[2, 2], grid[0, 3] = 1.0, 0.6, 0.5, 0.9  # the last one touches at a corner only
    assert peak_box(grid) == (1, 1, 3, 3)


def test_a_step_names_the_phrase_with_the_most_of_its_words():
    asked = asked_phrases([photo(("a b c d e", [(0, 3, (0, 0, 9, 9)), (4, 5, (0, 0, 9, 9))]))], SIDE)
    assert _named(np.array([0.2, 0.2, 0.2, 0.0, 0.4]), asked) == 0  # three words share what they have
    assert _named(np.array([0.1, 0.1, 0.1, 0.0, 0.7]), asked) == 1
    assert _named(np.array([0.1, 0.1, 0.1, 0.6, 0.1]), asked) is None  # a word of neither


def test_who_can_point():
    assert can_point(made.matcher("full-gated-product")) and can_point(made.matcher("scan"))
    # This MNLM's images are projected from a context that is wider than a region.
    assert not can_point(made.matcher("mnlm"))


@pytest.mark.parametrize(
    "kind",
    [
        "full-paired-product-instance-whole",
        "full-paired-product-instance-phrases",
        "full-gated-product",
        "scan",
        "dvsa",
    ],
)
def test_every_matcher_that_attends_can_be_asked(kind):
    matcher, widths = made.matcher(kind), made.WIDTHS
    found = measure_phrases(matcher, [photo(("a dog runs", [(0, 2, (0, 0, 20, 20))]))], _real(widths))
    assert {"alone", "in its caption"} <= {each.name for each in found.maps}
    assert all(0 <= each.hits.value <= 1 for each in found.maps)


def _real(widths):
    def features(places):
        noise = torch.Generator().manual_seed(0)
        shape = (len(places), SIDE * SIDE, widths["region_width"])
        regions = torch.rand(shape, generator=noise)
        return ImageFeatures(regions, torch.rand(len(places), widths["context_width"], generator=noise))

    return features
