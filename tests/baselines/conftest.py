import pytest
import torch

from smlstm.baselines import DVSA, OEM, SCAN, VSEPP
from smlstm.matching.batch import ImageFeatures, Tokens
from smlstm.text import Vocabulary

VOCABULARY = Vocabulary.build(["a dog runs on the green grass with two red balls"])


class Baselines:
    """Small baselines in double precision, and random inputs for them."""

    all = (OEM, VSEPP, DVSA, SCAN)

    def make(self, kind, seed: int = 0, **fields):
        torch.manual_seed(seed)
        sizes = {"region_width": 5, "context_width": 6, "embedding_width": 4, "sentence_width": 7}
        matcher = kind(kind.config_type(**{**sizes, **fields}), VOCABULARY).double().eval()
        with torch.no_grad():  # word vectors start close to 0, where all words look alike
            matcher.embedding.weight[1:].normal_()
        return matcher

    def images(self, count: int, regions: int = 3, seed: int = 0) -> ImageFeatures:
        noise = torch.Generator().manual_seed(seed)
        shapes = ((count, regions, 5), (count, 6))
        return ImageFeatures(*(torch.randn(shape, generator=noise, dtype=torch.float64) for shape in shapes))

    def sentences(self, lengths: list[int], seed: int = 0, padding: int = 0) -> Tokens:
        noise = torch.Generator().manual_seed(seed)
        ids = torch.zeros(len(lengths), max(lengths) + padding, dtype=torch.long)
        for row, length in zip(ids, lengths, strict=True):
            row[:length] = torch.randint(1, len(VOCABULARY), (length,), generator=noise)
        return Tokens(ids, torch.tensor(lengths))

    def score(self, matcher, images: ImageFeatures, sentences: Tokens) -> torch.Tensor:
        return matcher.score(matcher.encode_images(images), matcher.encode_sentences(sentences))


@pytest.fixture(scope="session")
def baselines() -> Baselines:
    return Baselines()


@pytest.fixture(params=Baselines.all, ids=lambda kind: kind.kind)
def kind(request):
    return request.param
