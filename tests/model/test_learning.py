"""The full model learns: composed scenes it has never seen are told apart by their sentences, and the reverse."""

import math

import numpy as np
import pytest
import torch

from smlstm.batch import ImageFeatures
from smlstm.data.scenes import compose, patch_features
from smlstm.evaluation import metrics, ranks
from smlstm.model import SMLSTM, ObjectiveConfig, SMLSTMConfig
from smlstm.model.objective import ranking_loss, regulariser
from smlstm.text import Vocabulary

TRAINING, HELD_OUT = 2500, 100
BATCH = 64
OBJECTIVE = ObjectiveConfig(regulariser=1.0)


@pytest.fixture(scope="module")
def world():
    """Scenes, two sentences each, and their features."""
    scenes = compose(seed=1, count=TRAINING + HELD_OUT, size=112, captions=2)
    regions, context = patch_features([scene.picture for scene in scenes])
    features = ImageFeatures(torch.from_numpy(regions), torch.from_numpy(context))
    return features, [scene.captions for scene in scenes]


def train(features: ImageFeatures, captions: list[tuple[str, ...]], epochs: int) -> SMLSTM:
    torch.manual_seed(0)
    pairs = [(image, sentence) for image in range(TRAINING) for sentence in captions[image]]
    config = SMLSTMConfig(
        region_width=features.regions.shape[2],
        context_width=features.context.shape[1],
        max_words=20,
        modulation="gated",
        comparison="product",
        embedding_width=32,
        word_width=64,
        sentence_width=64,
        attention_width=64,
        similarity_width=96,
        hidden_width=64,
    )
    model = SMLSTM(config, Vocabulary.build(sentence for _, sentence in pairs))
    tokens = model.tokens([sentence for _, sentence in pairs])
    image_of = torch.tensor([image for image, _ in pairs])
    optimiser = torch.optim.Adam(model.parameters(), lr=4e-3)
    steps = epochs * (len(pairs) // BATCH)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: 0.5 * (1 + math.cos(math.pi * step / steps)))
    diagonal = torch.arange(BATCH).repeat(2, 1).T
    for _ in range(epochs):
        for batch in torch.randperm(len(pairs)).split(BATCH):
            if len(batch) < BATCH:
                continue
            chosen, images = tokens.select(batch), image_of[batch]
            scores, saliency = model.score_and_attend(
                model.encode_images(features.select(images)), model.encode_sentences(chosen), diagonal
            )
            loss = ranking_loss(scores, images, images, OBJECTIVE) + regulariser(saliency, chosen.mask, OBJECTIVE)
            optimiser.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 2.0)
            optimiser.step()
            schedule.step()
    return model.eval()


@torch.no_grad()
def recall_at_1(model: SMLSTM, features: ImageFeatures, captions: list[tuple[str, ...]]) -> tuple[float, float]:
    """R@1 of both directions among the held-out scenes."""
    sentences = [(image, sentence) for image in range(HELD_OUT) for sentence in captions[TRAINING + image]]
    scores = model.score(
        model.encode_images(features.select(slice(TRAINING, None))),
        model.encode_sentences([sentence for _, sentence in sentences]),
    )
    found = ranks(scores.numpy(), np.array([image for image, _ in sentences]))
    return metrics(found.annotation).r1, metrics(found.retrieval).r1


@pytest.mark.slow
def test_full_model_learns_composed_scenes(world):
    features, captions = world
    annotation, retrieval = recall_at_1(train(features, captions, epochs=7), features, captions)
    assert annotation > 80
    assert retrieval > 80


@pytest.mark.slow
def test_shuffled_captions_teach_nothing(world):
    features, captions = world
    order = np.random.default_rng(0).permutation(TRAINING)
    shuffled = [captions[k] for k in order] + captions[TRAINING:]
    annotation, retrieval = recall_at_1(train(features, shuffled, epochs=2), features, captions)
    assert annotation <= 6, "chance is 1 in 100; 6 or more hits of 100 happen once in a thousand"
    assert retrieval <= 4
