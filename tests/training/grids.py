"""A batch and matchers of every kind, small."""

import torch

from smlstm.data import FeatureSpec
from smlstm.matching.batch import ImageFeatures, Tokens
from smlstm.matching.matcher import Matcher
from smlstm.model import ObjectiveConfig
from smlstm.saving import KINDS
from smlstm.text import Vocabulary
from smlstm.training.config import StageConfig
from smlstm.training.distributed import Processes
from smlstm.training.step import TrainingBatch

WIDTH, REGIONS, WORDS = 10, 6, 20
SIZES = {
    "embedding_width": 8,
    "sentence_width": 8,
    "word_width": 8,
    "attention_width": 6,
    "similarity_width": 8,
    "hidden_width": 6,
}


def example_matcher(kind: str, **settings: object) -> Matcher:
    """A matcher with seeded weights; "sm-lstm+" has a global score and an instance score."""
    if kind == "sm-lstm+":
        kind, settings = "sm-lstm", {"global_score": True, "instance_score": True, **settings}
    known = KINDS[kind].config_type.model_fields
    model = {name: value for name, value in SIZES.items() if name in known}
    stage = StageConfig(kind=kind, model={**model, **settings})
    torch.manual_seed(1)
    vocabulary = Vocabulary(tuple(f"w{number}" for number in range(WORDS)))
    return KINDS[kind](stage.matcher_config(FeatureSpec("test", "0" * 64, "none", 4, WIDTH, WIDTH)), vocabulary)


def example_objective(**fields: object) -> ObjectiveConfig:
    """The ranking loss with some regulariser."""
    return ObjectiveConfig.model_validate({"negatives": None, "regulariser": 0.5, **fields})


def example_batch(captions: int = 30, images: int = 26, seed: int = 0) -> TrainingBatch:
    """Captions of different length; some images have two."""
    chance = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, 9, (captions,), generator=chance)
    ids = torch.randint(1, WORDS, (captions, int(lengths.max())), generator=chance)
    ids = ids * (torch.arange(ids.shape[1]) < lengths[:, None])
    features = ImageFeatures(
        torch.rand(images, REGIONS, WIDTH, generator=chance), torch.rand(images, WIDTH, generator=chance)
    )
    image_of = torch.cat([torch.arange(images), torch.arange(captions - images)])
    return TrainingBatch(features, Tokens(ids, lengths), image_of, torch.arange(images) + 100)


def part_of(batch: TrainingBatch, processes: Processes) -> TrainingBatch:
    """The part of a batch that one of several processes reads."""
    own = torch.from_numpy(processes.part(torch.arange(len(batch.image_of)).numpy()))
    images, image_of = batch.image_of[own].unique(return_inverse=True)
    lengths = batch.tokens.lengths[own]
    tokens = Tokens(batch.tokens.ids[own, : int(lengths.max())], lengths)
    return TrainingBatch(batch.features.select(images), tokens, image_of, batch.images[images])
