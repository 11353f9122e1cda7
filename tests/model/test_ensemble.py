import pytest
import torch

from smlstm.errors import ConfigurationError, InputError
from smlstm.model import MNLM, Ensemble, MNLMConfig
from smlstm.text import Vocabulary
from tests.ensembles import standardise
from tests.model.conftest import SENTENCES, random_features


@pytest.fixture
def members(make):
    other_words = Vocabulary.build(["a zebra on the beach", "dog"])
    baseline = MNLM(MNLMConfig(region_width=6, context_width=7, sentence_width=9), other_words).double().eval()
    return [make(variant="full"), make(variant="ctx"), baseline]


def matrices(members):
    return [
        member.score(member.encode_images(random_features()), member.encode_sentences(SENTENCES)) for member in members
    ]


@torch.no_grad()
def test_ensemble_is_the_sum_of_its_members_matrices(members):
    ensemble = Ensemble(members).double()
    scores = ensemble.score(ensemble.encode_images(random_features()), ensemble.encode_sentences(SENTENCES))
    torch.testing.assert_close(scores, sum(matrices(members)))
    assert len(ensemble.encode_images(random_features(images=7))) == 7


@torch.no_grad()
def test_standardised_sum_weighs_members_alike(members):
    by_hand = sum((matrix - matrix.mean()) / matrix.std(correction=0) for matrix in matrices(members))
    ensemble = Ensemble(members).double()
    images, sentences = ensemble.encode_images(random_features()), ensemble.encode_sentences(SENTENCES)
    standardise(ensemble, images, sentences)
    torch.testing.assert_close(ensemble.score(images, sentences), by_hand, rtol=1e-5, atol=1e-5)


@torch.no_grad()
def test_a_standardised_pair_does_not_depend_on_its_batch(members):
    ensemble = Ensemble(members).double()
    images, sentences = ensemble.encode_images(random_features()), ensemble.encode_sentences(SENTENCES)
    standardise(ensemble, images, sentences)
    part = ensemble.score(images.select(slice(1, 3)), sentences.select(slice(2, 4)))
    torch.testing.assert_close(part, ensemble.score(images, sentences)[1:3, 2:4])


@torch.no_grad()
def test_maps_are_those_of_the_first_member_that_attends(members):
    ensemble = Ensemble(members[::-1]).double()
    pairs = torch.tensor([[0, 1], [3, 2]])
    maps = ensemble.attend(ensemble.encode_images(random_features()), ensemble.encode_sentences(SENTENCES), pairs)
    full = members[0]
    expected = full.attend(full.encode_images(random_features()), full.encode_sentences(SENTENCES), pairs)
    torch.testing.assert_close(maps.image, expected.image)


def test_what_cannot_be_summed_is_refused(make):
    with pytest.raises(ConfigurationError, match="region_width is 6 and 8"):
        Ensemble([make(), make(region_width=8)])
    with pytest.raises(ConfigurationError, match="backbone is one and other"):
        Ensemble([make(backbone="one"), make(backbone="other")])
    with pytest.raises(InputError, match="give a list"):
        Ensemble([make()]).encode_sentences("dog")
    with pytest.raises(ConfigurationError, match="at least one member"):
        Ensemble([])
