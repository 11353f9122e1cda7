"""Learning from trained MNLMs what captions do not say: which mismatched pairs almost match.

A caption names one image, and every other one counts as wrong, though many show the same. MNLMs that were trained apart
know more together than each alone, and their mean cosine says of each mismatched pair how wrong it is. The share
`teaching` of the loss asks that the model's softmax over a batch be theirs (Hinton et al. 2015):

    KL(softmax(taught / temperature), softmax(score / temperature))     over sentences for each image, and the reverse
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from smlstm.training.embedding import EmbeddedExamples


class Teachers:
    """What trained MNLMs together say of training pairs, and the share of the loss that is theirs."""

    def __init__(self, embedded: Sequence[EmbeddedExamples], share: float) -> None:
        self._embedded, self.share = list(embedded), share

    def scores(self, images: Tensor, captions: Tensor) -> Tensor:
        """Mean cosines of images and captions, both by their numbers in the training split; M, N."""
        rows, columns = images.cpu(), captions.cpu()
        found = [each.images[rows] @ each.captions[columns].T for each in self._embedded]
        return torch.stack(found).mean(0).to(images.device)


def teaching_loss(scores: Tensor, taught: Tensor, temperature: float) -> Tensor:
    """How far a grid of scores (M, N) is from what is taught, both ways; 0 where all differences are the same."""
    return _distance(scores / temperature, taught / temperature) + _distance(
        scores.T / temperature, taught.T / temperature
    )


def _distance(logits: Tensor, taught: Tensor) -> Tensor:
    """A mean over rows."""
    return functional.kl_div(logits.log_softmax(1), taught.log_softmax(1), reduction="batchmean", log_target=True)
