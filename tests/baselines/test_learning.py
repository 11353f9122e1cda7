import pytest
import torch

from smlstm.matching.batch import ImageFeatures
from smlstm.model.objective import ranking_loss

PAIRS = 16


@pytest.mark.slow
def test_learns_sixteen_pairs_by_heart_with_its_own_objective(baselines, kind):
    matcher = baselines.make(kind, sentence_width=32, embedding_width=16).train()
    images: ImageFeatures = baselines.images(PAIRS, regions=4)
    sentences = baselines.sentences([4 + k % 4 for k in range(PAIRS)])
    same = torch.arange(PAIRS)
    optimiser = torch.optim.Adam(matcher.parameters(), lr=0.01)
    for _ in range(300):
        scores = baselines.score(matcher, images, sentences)
        right = scores.diagonal()
        others = scores.detach() - torch.diag(torch.full((PAIRS,), torch.inf))
        if (right > others.amax(0)).all() and (right > others.amax(1)).all():
            return
        optimiser.zero_grad()
        ranking_loss(scores, same, same, matcher.objective()).backward()
        optimiser.step()
    pytest.fail(f"{kind.kind} did not learn {PAIRS} pairs in 300 steps")
