import pytest
import torch

from smlstm.batch import ImageFeatures
from smlstm.model.objective import ranking_loss

PAIRS = 16


@pytest.mark.slow
def test_learns_sixteen_pairs_by_heart_with_its_own_objective(rivals, kind):
    matcher = rivals.make(kind, sentence_width=32, embedding_width=16).train()
    images: ImageFeatures = rivals.images(PAIRS, regions=4)
    sentences = rivals.sentences([4 + k % 4 for k in range(PAIRS)])
    same = torch.arange(PAIRS)
    optimiser = torch.optim.Adam(matcher.parameters(), lr=0.01)
    for _ in range(300):
        scores = rivals.score(matcher, images, sentences)
        right = scores.diagonal()
        others = scores.detach() - torch.diag(torch.full((PAIRS,), torch.inf))
        if (right > others.amax(0)).all() and (right > others.amax(1)).all():
            return
        optimiser.zero_grad()
        ranking_loss(scores, same, same, matcher.objective()).backward()
        optimiser.step()
    pytest.fail(f"{kind.kind} did not learn {PAIRS} pairs in 300 steps")
