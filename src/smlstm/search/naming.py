"""Which sentences match a photo: from a list of one's own, or from the phrases that come with smlstm."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from smlstm.errors import InputError
from smlstm.matching.batch import ImageFeatures
from smlstm.pair import Pair
from smlstm.text import tokenise

_SENTENCES_AT_A_TIME = 512


@dataclass(frozen=True)
class Named:
    """A sentence, and how well it matches a photo."""

    sentence: str
    probability: float
    score: float

    def to_dict(self) -> dict[str, Any]:
        """As `--json` prints it."""
        return {"sentence": self.sentence, "probability": self.probability, "score": self.score}


FEWEST_PHRASES = 20


def shipped_phrases() -> list[str]:
    """Short phrases for common photos, made for this project."""
    text = (files("smlstm.search") / "phrases.txt").read_text(encoding="utf-8")
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def known_phrases(pair: Pair) -> list[str]:
    """The shipped phrases whose words a model knows: of others it would judge the words around the unknown one.

    All of them for a model that reads with a language model, and for one that knows hardly any: a choice of two or
    three says nothing.
    """
    phrases = shipped_phrases()
    if pair.reranker.config.language_model:
        return phrases
    known = [phrase for phrase in phrases if not pair.unknown_words([phrase]) and not pair.read_as([phrase])]
    return known if len(known) >= FEWEST_PHRASES else phrases


def read_sentences(path: Path) -> list[str]:
    """The sentences of a text file, one a line; lines without a word do not count."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 text: {error.reason} at byte {error.start}") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None
    found = list(dict.fromkeys(line.strip() for line in lines if tokenise(line)))
    if not found:
        raise InputError(f"{path} has no sentences: write one a line")
    return found


@torch.inference_mode()
def score_features(pair: Pair, features: ImageFeatures, sentences: Sequence[str]) -> Tensor:
    """A pair's scores of all photos with all sentences; M, N."""
    vectors, images = pair.encode_images(features)
    parts = [
        pair.score(vectors, images, sentences[start : start + _SENTENCES_AT_A_TIME])
        for start in range(0, len(sentences), _SENTENCES_AT_A_TIME)
    ]
    return torch.cat(parts, dim=1)


def name_photo(pair: Pair, features: ImageFeatures, sentences: Sequence[str]) -> list[Named]:
    """The sentences as they match one photo, the best first; equal ones in their order."""
    return ranked(pair, score_features(pair, features, sentences)[0], sentences)


def ranked(pair: Pair, scores: Tensor, sentences: Sequence[str]) -> list[Named]:
    """N sentences by their scores with a photo (N), the likeliest first; equal ones in their order."""
    order = torch.argsort(pair.calibration.log_odds(scores, sentences), descending=True, stable=True).tolist()
    found = scores.tolist()
    return [
        Named(sentences[each], pair.calibration.probability(found[each], sentences[each]), found[each])
        for each in order
    ]
