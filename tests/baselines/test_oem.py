import numpy as np
import torch

from smlstm.baselines import OEM
from smlstm.model.mnlm import Embedded
from tests.baselines.literal import all_pairs, gru, rms, unit, weights, word_vectors


def literal(w, images, sentences):
    def score(m, n):
        f_i = np.abs(unit(w["image.weight"] @ rms(images.context[m].numpy())))
        f_c = np.abs(unit(gru(w, "gru", word_vectors(w, sentences, n))[-1]))
        violation = 0.0
        for k in range(len(f_i)):
            violation += max(0.0, f_c[k] - f_i[k]) ** 2
        return -violation

    return all_pairs(score, len(images), len(sentences))


def test_scores_are_the_papers(baselines):
    matcher = baselines.make(OEM)
    images, sentences = baselines.images(4), baselines.sentences([3, 1, 5])
    with torch.no_grad():
        scores = baselines.score(matcher, images, sentences)
    np.testing.assert_allclose(scores.numpy(), literal(weights(matcher), images, sentences), atol=1e-10)


def test_a_caption_may_say_less_than_the_image_but_not_more(baselines):
    matcher = baselines.make(OEM, sentence_width=3)
    much, little = Embedded(torch.tensor([[0.7, 0.5, 0.5]])), Embedded(torch.tensor([[0.7, 0.1, 0.0]]))
    assert matcher.score(images=much, sentences=little).item() == 0
    assert matcher.score(images=little, sentences=much).item() < -0.1


def test_objective_is_the_papers():
    objective = OEM.objective()
    assert (objective.form, objective.margin, objective.regulariser) == ("sum", 0.05, 0)
