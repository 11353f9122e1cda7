"""Phrases as the sentence's instances: pooled words, shown as words again; and phrases sought in images."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn import functional

from smlstm.errors import InputError
from smlstm.model import MNLMConfig
from smlstm.model.phrases import over_words, pooled
from smlstm.text.word_groups import phrase_numbers
from tests.model.conftest import SENTENCES, random_features


def pairs_of(count: int) -> torch.Tensor:
    return torch.tensor([[k % 4, k] for k in range(count)])


def test_a_phrase_is_the_mean_of_its_words():
    words = torch.tensor([[[1.0], [3.0], [7.0], [9.0]], [[2.0], [4.0], [0.0], [0.0]]])
    phrases, mask = pooled(words, torch.tensor([[1, 1, 0, 2], [0, 1, 0, 0]]))
    assert phrases.tolist() == [[[2.0], [9.0]], [[4.0], [0.0]]]
    assert mask.tolist() == [[True, True], [True, False]]
    shown = over_words(torch.tensor([[[0.6, 0.4]], [[1.0, 0.0]]]), torch.tensor([[1, 1, 0, 2], [0, 1, 0, 0]]))
    torch.testing.assert_close(shown, torch.tensor([[[0.3, 0.3, 0.0, 0.4]], [[0.0, 1.0, 0.0, 0.0]]]))


@pytest.fixture
def model(make):
    return make(modulation="paired", words="phrases", word_width=5, instance_score=True)


def test_steps_attend_to_phrases_and_function_words_are_quiet(model):
    images, sentences = model.encode_images(random_features()), model.encode_sentences(SENTENCES)
    seen = model.attend(images, sentences, pairs_of(len(SENTENCES)))
    torch.testing.assert_close(seen.sentence.sum(2), torch.ones(5, 3, dtype=torch.double))
    for row, sentence in enumerate(SENTENCES):
        words = sentence.split()
        numbers = np.array(phrase_numbers(words))
        q = seen.sentence[row, :, : len(words)].detach().numpy()
        assert not q[:, numbers == 0].any() and not seen.sentence[row, :, len(words) :].any()
        for number in range(1, numbers.max() + 1):
            own = q[:, numbers == number]
            np.testing.assert_allclose(own, np.broadcast_to(own[:, :1], own.shape))


def test_a_held_phrase_gives_way_to_the_next(model):
    with torch.no_grad():
        model.search.held.fill_(1e4)
        model.sentence_attention.output.weight.mul_(50)  # each step then looks at one phrase alone
    sentence = "a red dog and two men on the beach"
    seen = model.attend(model.encode_images(random_features(1)), model.encode_sentences([sentence]), pairs_of(1))
    numbers = np.array(phrase_numbers(sentence.split()))
    shares = [[float(step[numbers == number].sum()) for number in (1, 2, 3)] for step in seen.sentence[0].detach()]
    assert {int(np.argmax(step)) for step in shares} == {0, 1, 2}


def test_each_word_still_has_a_map_of_its_own(model):
    images, sentences = model.encode_images(random_features()), model.encode_sentences(SENTENCES[:1])
    maps = model.word_maps(images, sentences, torch.tensor([[0, 0]]))
    assert maps.shape == (1, 7, 10)
    assert not torch.allclose(maps[0, 1], maps[0, 2])  # red, dog


def test_some_sentences_of_a_batch_may_have_fewer_phrases(model):
    images, sentences = model.encode_images(random_features()), model.encode_sentences([SENTENCES[3], "dog"])
    some = model.attend(images, sentences, torch.tensor([[0, 1]]))
    alone = model.attend(images, model.encode_sentences(["dog"]), torch.tensor([[0, 0]]))
    torch.testing.assert_close(some.sentence[:, :, :1], alone.sentence)
    assert not some.sentence[:, :, 1:].any()


def test_company_changes_nothing(model):
    images = model.encode_images(random_features())
    together = model.score(images, model.encode_sentences(SENTENCES))
    for place, sentence in enumerate(SENTENCES):
        torch.testing.assert_close(
            together[:, place : place + 1], model.score(images, model.encode_sentences([sentence]))
        )


def test_seeking_is_attending_and_comparing_one_thing_at_a_time(model):
    images, sentences = model.encode_images(random_features()), model.encode_sentences(["two men", "the red dog"])
    sought = model.first_sought(sentences)
    found, maps = model.seek(images, sought, torch.tensor([2, 0]))
    attended = model.attend(images, sentences, torch.tensor([[2, 0], [0, 1]]))
    torch.testing.assert_close(maps, attended.image[:, 0])
    for place, image in enumerate((2, 0)):
        what = maps[place] @ images.candidates[image]
        torch.testing.assert_close(found[image, place], functional.cosine_similarity(what, sought[place], dim=0))


def test_tokens_without_phrases_are_refused(model):
    with pytest.raises(InputError, match="phrases"):
        model.encode_sentences(replace(model.tokens(SENTENCES), phrases=None))


def test_own_pieces_stand_beside_what_is_read(make):
    model = make(words="phrases", modulation="paired", language_model="minilm", own_pieces=True, word_width=768)
    vectors = model._read(["a red dog", "a red ball"])
    assert vectors.shape[2] == 768
    torch.testing.assert_close(vectors[0, 1, 384:], vectors[1, 1, 384:])  # red is red
    assert not torch.equal(vectors[0, 1, :384], vectors[1, 1, :384])  # read beside another noun
    assert model.score(model.encode_images(random_features()), model.encode_sentences(["a red dog"])).shape == (4, 1)


def test_own_pieces_want_a_language_model(make):
    with pytest.raises(ValueError, match="own_pieces is set"):
        make(own_pieces=True)


def test_no_sentences_at_all_are_read(make):
    model = make(words="phrases", modulation="paired", language_model="minilm", own_pieces=True, word_width=768)
    assert len(model.encode_sentences([])) == 0


def test_every_kind_refuses_pieces_of_no_language_model():
    with pytest.raises(ValueError, match="own_pieces is set"):
        MNLMConfig(region_width=6, context_width=6, sentence_width=4, own_pieces=True)
