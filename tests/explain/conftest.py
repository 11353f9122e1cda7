import pytest
import torch
from PIL import Image

from smlstm.explain import Explanation, explain
from smlstm.matching.batch import ImageFeatures
from smlstm.model import SMLSTM, SMLSTMConfig
from smlstm.text import Vocabulary
from tests.browser import browser, open_page  # noqa: F401 - fixtures

SENTENCES = ["a red dog runs on the beach", "two men play", "an unseen <b>zebra</b> & a dog"]


def build(**changes) -> SMLSTM:
    sizes = dict(region_width=6, context_width=7, max_words=12, embedding_width=5, word_width=8, sentence_width=9)
    sizes |= dict(attention_width=4, similarity_width=3, hidden_width=5)
    torch.manual_seed(7)
    model = SMLSTM(SMLSTMConfig(**{**sizes, **changes}), Vocabulary.build(SENTENCES[:2])).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3.0)
    return model


@pytest.fixture
def features() -> ImageFeatures:
    generator = torch.Generator().manual_seed(0)
    return ImageFeatures(torch.randn(3, 16, 6, generator=generator), torch.randn(3, 7, generator=generator))


@pytest.fixture
def photos() -> list[Image.Image]:
    return [Image.new("RGB", size, (200, 120, 60)) for size in ((60, 40), (30, 90), (50, 50))]


@pytest.fixture
def explanations(features, photos) -> list[Explanation]:
    return explain(
        build(), features, SENTENCES, names=["one.jpg", "two.jpg", '"><script>x</script>.jpg'], photos=photos
    )


@pytest.fixture
def searching(features, photos) -> list[Explanation]:
    """The same pairs by a model that has a map for each word, and a score of the wholes."""
    model = build(modulation="paired", global_score=True, instance_score=True)
    return explain(model, features, SENTENCES, names=["one.jpg", "two.jpg", "three.jpg"], photos=photos)
