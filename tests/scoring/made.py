"""Small matchers of every kind, images and sentences to score, all from fixed seeds."""

import functools

import numpy as np
import torch

from smlstm.baselines import DVSA, OEM, SCAN, VSEPP
from smlstm.data import FeatureSpec
from smlstm.matching.batch import ImageFeatures
from smlstm.matching.matcher import Matcher
from smlstm.model import MNLM, SMLSTM, Ensemble, MNLMConfig, SMLSTMConfig
from smlstm.text import Vocabulary
from tests.ensembles import standardise

WORDS = ["a", "dog", "runs", "on", "the", "green", "grass", "with", "two", "red", "balls", "near", "old", "men"]
VOCABULARY = Vocabulary.build([" ".join(WORDS)])
WIDTHS = {"region_width": 5, "context_width": 6, "embedding_width": 4}
SMLSTMS = [
    f"{variant}-{modulation}-{comparison}"
    for variant in ("mean", "att", "ctx", "full")
    for modulation in ("separate", "joint", "gated", "paired")
    for comparison in ("additive", "product")
]
WHOLES = ["full-gated-product-whole", "att-joint-additive-whole", "ctx-gated-product-whole-max"]  # with a global score
INSTANCES = [  # with an instance score, or both
    "full-paired-product-instance-whole",
    "full-paired-product-instance-phrases",
    "full-paired-product-instance-whole-weighted",
    "full-gated-product-instance-weighted",
    "full-gated-product-instance",
    "att-joint-additive-instance-whole",
    "mean-gated-product-instance",
    "ctx-gated-additive-instance",
]
BASELINES = {"mnlm": MNLM, "oem": OEM, "vse++": VSEPP, "dvsa": DVSA, "scan": SCAN}
KINDS = [*SMLSTMS, *WHOLES, *INSTANCES, *BASELINES, "ensemble"]


def smlstm(name: str = "full-gated-product", **changes) -> SMLSTM:
    variant, modulation, comparison, *added = name.split("-")
    sizes = dict(word_width=6, sentence_width=7, attention_width=8, similarity_width=5, hidden_width=6)
    fields = {**WIDTHS, **sizes, "variant": variant, "modulation": modulation, "comparison": comparison}
    fields |= {"global_score": "whole" in added, "instance_score": "instance" in added}
    weights = (0.5, 2.0, 0.25)[: 1 + fields["global_score"] + fields["instance_score"]]
    fields |= {"term_weights": weights} if "weighted" in added else {}
    fields |= {"words": "phrases", "word_width": WIDTHS["embedding_width"]} if "phrases" in added else {}
    fields |= {"image_pooling": "max" if "max" in added else "context", **changes}
    torch.manual_seed(3)
    model = SMLSTM(SMLSTMConfig(**fields), VOCABULARY).eval()
    with torch.no_grad():  # larger than at a start, so that pairs differ
        for parameter in model.parameters():
            parameter.mul_(2.0)
    return model


def mnlm(seed: int = 0) -> MNLM:
    torch.manual_seed(seed)
    return MNLM(MNLMConfig(**WIDTHS, sentence_width=7), VOCABULARY).eval()


@functools.cache
def matcher(kind: str) -> Matcher:
    """One of `KINDS`."""
    if kind == "ensemble":
        ensemble = Ensemble([smlstm("full-joint-additive"), smlstm("ctx-gated-product"), mnlm()])
        standardise(ensemble, ensemble.encode_images(features(5)), ensemble.encode_sentences(sentences(6)))
        return ensemble.eval()
    if kind in BASELINES:
        torch.manual_seed(1)
        baseline = BASELINES[kind]
        return baseline(baseline.config_type(**WIDTHS, sentence_width=7), VOCABULARY).eval()
    return smlstm(kind)


def features(count: int, regions: int = 7, seed: int = 0) -> ImageFeatures:
    noise = torch.Generator().manual_seed(seed)
    shapes = ((count, regions, 5), (count, 6))
    return ImageFeatures(*(torch.randn(shape, generator=noise) for shape in shapes))


def sentences(count: int, seed: int = 0) -> list[str]:
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice(WORDS, size=rng.integers(1, 9))) for _ in range(count)]


@torch.no_grad()
def plain(model: Matcher, images: ImageFeatures, texts: list[str]) -> np.ndarray:
    """What the engine must agree with."""
    return model.score(model.encode_images(images), model.encode_sentences(texts)).numpy()


class MadeStore:
    """Reads like a feature store; remembers how much was asked for at a time."""

    def __init__(self, images: ImageFeatures, name: str = "made") -> None:
        self.regions, self.context = images.regions.half().numpy(), images.context.half().numpy()
        self.spec = FeatureSpec(name, "0", "none", *images.regions.shape[1:], images.context.shape[1])
        self.most = 0
        self.asked: list[int] = []

    def __len__(self) -> int:
        return len(self.context)

    def __contains__(self, key: object) -> bool:
        return key in self.keys()

    def keys(self) -> list[str]:
        return [f"{row}.jpg" for row in range(len(self))]

    def rows(self, keys):
        return np.array([int(key.split(".")[0]) for key in keys])

    def read(self, keys):
        return self.read_at(self.rows(keys))

    def read_at(self, rows):
        self.most = max(self.most, len(rows))
        self.asked.extend(np.asarray(rows).tolist())
        return self.regions[rows], self.context[rows]
