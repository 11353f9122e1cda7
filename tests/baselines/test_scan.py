import numpy as np
import pytest
import torch

from smlstm.baselines import SCAN
from smlstm.baselines.alignment import Regions, Words
from tests.baselines.literal import all_pairs, cosine, gru, rms, weights, word_vectors


def literal_sides(w, images, sentences, m, n):
    v = [w["region.weight"] @ a + w["region.bias"] for a in rms(images.regions[m].numpy())]
    words = word_vectors(w, sentences, n)
    forwards, backwards = gru(w, "forwards", words), gru(w, "backwards", words[::-1])[::-1]
    return v, [(ahead + back) / 2 for ahead, back in zip(forwards, backwards, strict=True)]


def literal_attention(v, e, scale=9.0):
    """alpha[j][i]"""
    s = [[max(0.0, cosine(v_i, e_j)) for e_j in e] for v_i in v]
    norm = [np.sqrt(sum(s_ij**2 for s_ij in row)) for row in s]
    alpha = []
    for j in range(len(e)):
        logits = [scale * (s[i][j] / norm[i] if norm[i] > 0 else 0.0) for i in range(len(v))]
        alpha.append([np.exp(logit) / sum(np.exp(other) for other in logits) for logit in logits])
    return alpha


def literal(w, images, sentences, pooling):
    def score(m, n):
        v, e = literal_sides(w, images, sentences, m, n)
        relevance = []
        for e_j, alpha_j in zip(e, literal_attention(v, e), strict=True):
            a_j = sum(weight * v_i for weight, v_i in zip(alpha_j, v, strict=True))
            relevance.append(cosine(e_j, a_j))
        if pooling == "average":
            return sum(relevance) / len(relevance)
        return np.log(sum(np.exp(6 * r) for r in relevance)) / 6

    return all_pairs(score, len(images), len(sentences))


@pytest.mark.parametrize("pooling", ["average", "logsumexp"])
def test_scores_are_the_papers(baselines, pooling):
    matcher = baselines.make(SCAN, pooling=pooling)
    images, sentences = baselines.images(4), baselines.sentences([3, 1, 5])
    with torch.no_grad():
        scores = baselines.score(matcher, images, sentences)
    expected = literal(weights(matcher), images, sentences, pooling)
    np.testing.assert_allclose(scores.numpy(), expected, atol=1e-10)


def test_saliency_is_the_papers_attention(baselines):
    matcher = baselines.make(SCAN)
    images, sentences = baselines.images(1, regions=6), baselines.sentences([4])
    saliency = matcher.attend(
        matcher.encode_images(images), matcher.encode_sentences(sentences), torch.tensor([[0, 0]])
    )
    v, e = literal_sides(weights(matcher), images, sentences, 0, 0)
    np.testing.assert_allclose(saliency.image[0].detach().numpy(), literal_attention(v, e), atol=1e-10)


def test_a_region_unlike_every_word_has_a_gradient(baselines):
    """Its norm over the words is 0, where a careless square root gives NaN."""
    matcher = baselines.make(SCAN)
    regions = torch.tensor([[[1.0, 0.0], [-1.0, 0.0]]], requires_grad=True)
    words = torch.tensor([[[1.0, 0.0], [0.6, 0.8]]], requires_grad=True)
    mask = torch.ones(1, 2, dtype=torch.bool)
    matcher.score(Regions(regions), Words(words, mask)).sum().backward()
    assert torch.isfinite(regions.grad).all() and torch.isfinite(words.grad).all()


def test_objective_is_the_papers():
    objective = SCAN.objective()
    assert (objective.form, objective.margin, objective.regulariser) == ("hardest", 0.2, 0)
