import numpy as np
import torch

from smlstm.baselines import VSEPP
from smlstm.model.objective import ranking_loss
from tests.baselines.literal import all_pairs, cosine, lstm, rms, weights, word_vectors


def literal(w, images, sentences):
    def score(m, n):
        x = w["image.weight"] @ rms(images.context[m].numpy()) + w["image.bias"]
        return cosine(x, lstm(w, "sentence_context.lstm", word_vectors(w, sentences, n))[-1])

    return all_pairs(score, len(images), len(sentences))


def test_scores_are_the_papers(baselines):
    matcher = baselines.make(VSEPP)
    images, sentences = baselines.images(4), baselines.sentences([3, 1, 5])
    with torch.no_grad():
        scores = baselines.score(matcher, images, sentences)
    np.testing.assert_allclose(scores.numpy(), literal(weights(matcher), images, sentences), atol=1e-10)


def test_objective_is_the_papers():
    scores = np.random.default_rng(0).uniform(-1, 1, (6, 6))
    loss = 0.0
    for k in range(6):
        others = [other for other in range(6) if other != k]
        loss += max(max(0.0, 0.2 - scores[k, k] + scores[k, other]) for other in others)
        loss += max(max(0.0, 0.2 - scores[k, k] + scores[other, k]) for other in others)
    same = torch.arange(6)
    ours = ranking_loss(torch.from_numpy(scores), same, same, VSEPP.objective())
    np.testing.assert_allclose(ours.item(), loss / 6)
    assert VSEPP.objective().regulariser == 0
