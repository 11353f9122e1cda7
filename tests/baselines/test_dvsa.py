import numpy as np
import torch

from smlstm.baselines import DVSA
from tests.baselines.literal import all_pairs, rms, weights, word_vectors


def relu(x):
    return np.maximum(0.0, x)


def literal_regions(w, images, m):
    return [w["region.weight"] @ a + w["region.bias"] for a in rms(images.regions[m].numpy())]


def literal_words(w, sentences, n):
    e = [relu(w["word.weight"] @ x + w["word.bias"]) for x in word_vectors(w, sentences, n)]
    last = len(e) - 1
    forwards, backwards = [np.zeros_like(e[0])] * len(e), [np.zeros_like(e[0])] * len(e)
    for t in range(len(e)):
        before = forwards[t - 1] if t > 0 else np.zeros_like(e[0])
        forwards[t] = relu(e[t] + w["forwards.step.weight"] @ before + w["forwards.step.bias"])
    for t in reversed(range(len(e))):
        after = backwards[t + 1] if t < last else np.zeros_like(e[0])
        backwards[t] = relu(e[t] + w["backwards.step.weight"] @ after + w["backwards.step.bias"])
    both = zip(forwards, backwards, strict=True)
    return [relu(w["sentence.weight"] @ (f + b) + w["sentence.bias"]) for f, b in both]


def literal(w, images, sentences):
    def score(m, n):
        regions = literal_regions(w, images, m)
        return sum(max(float(v @ s) for v in regions) for s in literal_words(w, sentences, n))

    return all_pairs(score, len(images), len(sentences))


def test_scores_are_the_papers(baselines):
    matcher = baselines.make(DVSA)
    images, sentences = baselines.images(4), baselines.sentences([3, 1, 5])
    with torch.no_grad():
        scores = baselines.score(matcher, images, sentences)
    np.testing.assert_allclose(scores.numpy(), literal(weights(matcher), images, sentences), rtol=1e-10)


def test_each_word_looks_at_its_best_region(baselines):
    matcher = baselines.make(DVSA)
    images, sentences = baselines.images(1, regions=6), baselines.sentences([4])
    w = weights(matcher)
    regions, words = literal_regions(w, images, 0), literal_words(w, sentences, 0)
    saliency = matcher.attend(
        matcher.encode_images(images), matcher.encode_sentences(sentences), torch.tensor([[0, 0]])
    )
    for t, s in enumerate(words):
        products = [float(v @ s) for v in regions]
        assert saliency.image[0, t].tolist() == [float(i == np.argmax(products)) for i in range(6)]


def test_objective_is_the_papers():
    objective = DVSA.objective()
    assert (objective.form, objective.margin, objective.regulariser) == ("sum", 1.0, 0)
