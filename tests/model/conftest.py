import pytest
import torch

from smlstm.matching.batch import ImageFeatures
from smlstm.model import SMLSTM, SMLSTMConfig
from smlstm.text import Vocabulary

SENTENCES = [
    "a red dog runs on the beach",
    "two men play",
    "dog",
    "the beach the dog and two red men run on",
    "an unseen zebra on the beach",
]


@pytest.fixture(scope="session")
def vocabulary() -> Vocabulary:
    return Vocabulary.build([*SENTENCES[:4], "run and play"])


@pytest.fixture
def make(vocabulary):
    """An sm-LSTM of tiny odd sizes in double precision, so that equations can be compared to many digits."""

    def build(**changes) -> SMLSTM:
        sizes = dict(
            region_width=6,
            context_width=7,
            max_words=12,
            embedding_width=5,
            word_width=8,
            sentence_width=9,
            attention_width=4,
            similarity_width=3,
            hidden_width=5,
        )
        torch.manual_seed(7)
        model = SMLSTM(SMLSTMConfig(**{**sizes, **changes}), vocabulary).double().eval()
        with torch.no_grad():  # larger weights than a start has, so that no term of an equation hides
            for parameter in model.parameters():
                parameter.mul_(2.0)
        return model

    return build


def random_features(images: int = 4, regions: int = 10, width: int = 6, context: int = 7, seed: int = 0):
    generator = torch.Generator().manual_seed(seed)
    return ImageFeatures(
        torch.randn(images, regions, width, generator=generator, dtype=torch.double),
        torch.randn(images, context, generator=generator, dtype=torch.double),
    )
