"""Ensembles whose members count alike."""

import torch

from smlstm.matching.batch import Batch
from smlstm.model import Ensemble


@torch.no_grad()
def standardise(ensemble: Ensemble, images: Batch, sentences: Batch) -> None:
    """Fix each member's mean and deviation from the scores of these images and sentences."""
    for k, matrix in enumerate(ensemble.scores(images, sentences)):
        ensemble.means[k], ensemble.deviations[k] = matrix.mean(), matrix.std(correction=0)
