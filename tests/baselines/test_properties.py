"""What must hold for every baseline, whatever its equations."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from smlstm.baselines import DVSA, OEM, SCAN, VSEPP
from smlstm.baselines import slices as slices_module
from smlstm.errors import InputError
from smlstm.matching.matcher import Matcher

seeds = st.integers(0, 2**16)
some_lengths = st.lists(st.integers(1, 6), min_size=1, max_size=5)
few = settings(max_examples=12)
attending = pytest.mark.parametrize(
    "attending",
    [(DVSA, {}), (SCAN, {}), (SCAN, {"pooling": "logsumexp"})],
    ids=["dvsa", "scan", "scan-logsumexp"],
)
every_equation = pytest.mark.parametrize(
    "baseline",
    [(OEM, {}), (VSEPP, {}), (DVSA, {}), (SCAN, {}), (SCAN, {"pooling": "logsumexp"})],
    ids=["oem", "vse++", "dvsa", "scan", "scan-logsumexp"],
)


@few
@given(seed=seeds, lengths=some_lengths, padding=st.integers(1, 9))
def test_more_padding_changes_nothing(baselines, kind, seed, lengths, padding):
    matcher, images = baselines.make(kind, seed), baselines.images(3, seed=seed)
    plain = baselines.score(matcher, images, baselines.sentences(lengths, seed))
    padded = baselines.score(matcher, images, baselines.sentences(lengths, seed, padding))
    torch.testing.assert_close(padded, plain)


@few
@given(seed=seeds, lengths=some_lengths, data=st.data())
def test_a_pairs_score_does_not_depend_on_the_rest_of_the_batch(baselines, kind, seed, lengths, data):
    matcher, images = baselines.make(kind, seed), baselines.images(4, seed=seed)
    sentences = baselines.sentences(lengths, seed)
    m, n = data.draw(st.integers(0, 3)), data.draw(st.integers(0, len(lengths) - 1))
    alone = baselines.score(matcher, images.select(slice(m, m + 1)), sentences.select(slice(n, n + 1)))
    torch.testing.assert_close(alone[0, 0], baselines.score(matcher, images, sentences)[m, n])


@few
@given(seed=seeds, lengths=some_lengths, data=st.data())
def test_permuting_sentences_permutes_columns(baselines, kind, seed, lengths, data):
    matcher, images = baselines.make(kind, seed), baselines.images(3, seed=seed)
    sentences = baselines.sentences(lengths, seed)
    order = torch.tensor(data.draw(st.permutations(range(len(lengths)))))
    permuted = baselines.score(matcher, images, sentences.select(order))
    torch.testing.assert_close(permuted, baselines.score(matcher, images, sentences)[:, order])


@attending
@few
@given(seed=seeds, lengths=some_lengths, padding=st.integers(0, 4))
def test_saliency_has_a_step_a_word(baselines, attending, seed, lengths, padding):
    kind, fields = attending
    matcher = baselines.make(kind, seed, **fields)
    images = matcher.encode_images(baselines.images(3, seed=seed))
    tokens = baselines.sentences(lengths, seed, padding)
    sentences = matcher.encode_sentences(tokens)
    pairs = torch.cartesian_prod(torch.arange(3), torch.arange(len(lengths)))
    saliency = matcher.attend(images, sentences, pairs)
    words = tokens.ids.shape[1]
    assert saliency.image.shape == (len(pairs), words, 3)
    assert saliency.sentence.shape == (len(pairs), words, words)
    for maps in (saliency.image, saliency.sentence):
        torch.testing.assert_close(maps.sum(2), torch.ones(len(pairs), words, dtype=torch.float64))
        assert (maps >= 0).all()
    on_padding = ~tokens.mask[pairs[:, 1]][:, None].expand_as(saliency.sentence)
    assert (saliency.sentence[on_padding] == 0).all()
    whole = matcher.score(images, sentences)[pairs[:, 0], pairs[:, 1]]
    torch.testing.assert_close(saliency.scores[:, -1], whole)


@attending
def test_padding_steps_stay_at_the_last_word(baselines, attending):
    kind, fields = attending
    matcher = baselines.make(kind, **fields)
    images, sentences = baselines.images(1), baselines.sentences([2], padding=2)
    saliency = matcher.attend(
        matcher.encode_images(images), matcher.encode_sentences(sentences), torch.tensor([[0, 0]])
    )
    assert saliency.sentence[0].argmax(1).tolist() == [0, 1, 1, 1]
    for part in (saliency.image, saliency.scores):
        assert (part[0, 2:] == part[0, 1]).all()


@pytest.mark.parametrize("silent", [OEM, VSEPP])
def test_embedding_rivals_have_no_saliency(baselines, silent):
    matcher = baselines.make(silent)
    images, sentences = baselines.images(1), baselines.sentences([2])
    with pytest.raises(InputError, match="no attention"):
        matcher.attend(matcher.encode_images(images), matcher.encode_sentences(sentences), torch.tensor([[0, 0]]))


def test_every_parameter_gets_a_gradient(baselines, kind):
    matcher = baselines.make(kind)
    baselines.score(matcher, baselines.images(5), baselines.sentences([3, 1, 5, 2])).square().sum().backward()
    for name, parameter in matcher.named_parameters():
        assert parameter.grad is not None and torch.isfinite(parameter.grad).all(), name
        assert parameter.grad.abs().sum() > 0, name


@every_equation
def test_gradients_are_those_of_the_scores(baselines, baseline):
    kind, fields = baseline
    sizes = {"sentence_width": 3, "embedding_width": 2}
    matcher = baselines.make(kind, seed=3, **sizes, **fields)
    images, sentences = baselines.images(2), baselines.sentences([2, 3])
    names = [name for name, _ in matcher.named_parameters()]
    matcher.forward = lambda: baselines.score(matcher, images, sentences)

    def scores(*parameters):
        return torch.func.functional_call(matcher, dict(zip(names, parameters, strict=True)), ())

    assert torch.autograd.gradcheck(scores, tuple(matcher.parameters()))


def test_saved_and_loaded_bit_for_bit(baselines, kind, tmp_path):
    fields = {"pooling": "logsumexp", "attention_scale": 4.0} if kind is SCAN else {}
    matcher = baselines.make(kind, max_words=9, backbone="tiny", **fields)
    matcher.save(tmp_path / "model")
    loaded = Matcher.load(tmp_path / "model")
    assert type(loaded) is kind and loaded.config == matcher.config
    assert loaded.vocabulary == matcher.vocabulary
    for name, tensor in matcher.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], tensor), name
    images, sentences = baselines.images(3), baselines.sentences([4, 2])
    assert torch.equal(baselines.score(loaded, images, sentences), baselines.score(matcher, images, sentences))


def test_slices_change_neither_scores_nor_gradients(baselines, kind, monkeypatch):
    matcher, images, sentences = baselines.make(kind), baselines.images(5), baselines.sentences([3, 1, 5])

    def run():
        matcher.zero_grad()
        scores = baselines.score(matcher, images, sentences)
        scores.square().sum().backward()
        return scores.detach(), [parameter.grad.clone() for parameter in matcher.parameters()]

    whole = run()
    for size in (1, 40):
        monkeypatch.setattr(slices_module, "_SLICE", size)
        torch.testing.assert_close(run(), whole)


def test_no_images_give_no_rows(baselines, kind):
    assert baselines.score(baselines.make(kind), baselines.images(0), baselines.sentences([2, 1])).shape == (0, 2)
