"""All training images and captions in the space of a trained MNLM, after one pass: for mining and for teaching."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from smlstm.model import MNLM
from smlstm.model.mnlm import Embedded
from smlstm.training.examples import CaptionTokens, Examples


@dataclass(frozen=True)
class EmbeddedExamples:
    """Unit vectors of a training split."""

    images: Tensor  # U, E
    captions: Tensor  # N, E


@torch.no_grad()
def embed(mnlm: MNLM, examples: Examples, tokens: CaptionTokens, chunk: int = 512) -> EmbeddedExamples:
    """Embed all images and captions once."""
    mnlm.eval()
    device = next(mnlm.parameters()).device
    # Sorted by length, a chunk has next to no padding.
    order = np.argsort(tokens.lengths, kind="stable")
    captions = torch.empty(len(examples), mnlm.config.sentence_width)
    for start in range(0, len(order), chunk):
        places = order[start : start + chunk]
        captions[torch.from_numpy(places)] = _vectors(mnlm.encode_sentences(tokens.select(places).to(device)))
    images = [
        _vectors(mnlm.encode_images(examples.images.read(part, with_regions=False).to(device)))
        for part in np.array_split(np.arange(len(examples.images)), -(-len(examples.images) // chunk))
    ]
    return EmbeddedExamples(torch.cat(images), captions)


def _vectors(encoded: object) -> Tensor:
    assert isinstance(encoded, Embedded)
    return encoded.vectors.float().cpu()
