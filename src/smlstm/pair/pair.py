"""A pair of matchers: one of vectors, quick, for a shortlist; one that looks closely, for what is on it.

An sm-LSTM with a global score may be both: x and v, which that score compares, are vectors too.

A pair is a folder:

    shortlist/         a saved MNLM or VSE++; none where the reranker's own global score finds candidates
    reranker/          a saved matcher of any kind, an sm-LSTM or an ensemble with one as a rule, of the same
                       backbone and grid
    calibration.json   {"scale": a, "offset": b, "short_scale": a', "short_offset": b', "shortlist_weight": w},
                       fitted on dev
    backbone.safetensors   what was tuned of the backbone, for both, if it was

A pair's score is the reranker's plus w times the shortlist's cosine; calibration.py says how likely a match it is.
"""

import copy
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import isqrt
from pathlib import Path
from typing import Any, cast

import torch
from pydantic import ValidationError
from torch import Tensor

from smlstm.errors import ConfigurationError, InputError
from smlstm.files import fingerprint
from smlstm.matching.batch import Batch, ImageFeatures
from smlstm.matching.matcher import Matcher
from smlstm.model import MNLM, SMLSTM, Ensemble
from smlstm.model.ensemble import members_of
from smlstm.model.mnlm import Embedded
from smlstm.model.smlstm import EncodedSide
from smlstm.pair.calibration import Calibration
from smlstm.saving import save, save_backbone
from smlstm.scoring.precision import choose_precision
from smlstm.scoring.scorer import Scorer, scorer_for
from smlstm.text.language_model import language_model
from smlstm.vision.backbones import has_fixed_grid
from smlstm.vision.photo_features import PhotoReader

SHORTLIST, RERANKER, CALIBRATION = "shortlist", "reranker", "calibration.json"
_ENCODING = "2"
"""Of what the same files make of a photo: 2 since regions lie in the middle of their cells."""


@dataclass(frozen=True, eq=False)
class Pair:
    """Two matchers of the same features, and what their common score means."""

    shortlist: MNLM | None
    """None: the reranker's own global score."""
    reranker: Matcher
    calibration: Calibration = field(default_factory=Calibration)
    calibrated: bool = True
    """Whether probabilities were fitted; otherwise they only put photos in order."""
    digest: str = ""
    """Of all that the encodings of images depend on."""
    _scorer: Scorer[Batch] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if self.shortlist is None:
            self._refuse_without_vectors()
        elif not isinstance(self.shortlist, MNLM):
            raise ConfigurationError(
                f"the shortlist must be a matcher of unit vectors (mnlm or vse++), not {self.shortlist.kind}"
            )
        for name in ("backbone", "regions", "region_width", "context_width"):
            first, second = (getattr(matcher.config, name) for matcher in (self._finder, self.reranker))
            if name == "regions" and None in (first, second):
                continue
            if first != second:
                raise ConfigurationError(
                    f"the shortlist was trained with {name} {first}, the reranker with {second}: "
                    "a pair must read the same features"
                )
        object.__setattr__(self, "_scorer", scorer_for(self.reranker, choose_precision("auto", torch.device("cpu"))))
        if not self.digest:
            object.__setattr__(self, "digest", _digest_of(*self._matchers))

    def _refuse_without_vectors(self) -> None:
        if not (isinstance(self.reranker, SMLSTM) and self.reranker.config.global_score):
            raise ConfigurationError(
                f"this {self.reranker.kind} has no global score to find candidates by: give the pair a shortlist (an "
                "mnlm or vse++), or take an sm-lstm that was trained with global_score"
            )
        if self.calibration.shortlist_weight:
            raise ConfigurationError("a pair without a shortlist of its own cannot add its score: no shortlist_weight")

    @property
    def _finder(self) -> Matcher:
        return self.reranker if self.shortlist is None else self.shortlist

    @property
    def _matchers(self) -> list[Matcher]:
        return [self.reranker] if self.shortlist is None else [self.shortlist, self.reranker]

    @cached_property
    def vector_width(self) -> int:
        """Width of the unit vectors that find candidates."""
        config = self._finder.config
        empty = ImageFeatures(torch.zeros(1, 1, config.region_width), torch.zeros(1, config.context_width))
        return self.embed_images(empty).shape[1]

    @property
    def regions(self) -> int:
        """I, regions of a photo."""
        known = self.reranker.config.regions or self._finder.config.regions
        if known is None:
            raise ConfigurationError('config.json of neither model says how many "regions" a photo has: train anew')
        return known

    def photo_reader(self, runtime: str = "auto") -> PhotoReader:
        """What turns photos into the features that both matchers read."""
        fixed = has_fixed_grid(self.reranker.config.backbone)
        grid = None if fixed else isqrt(self.regions)
        return PhotoReader(self.reranker.config, self.reranker.tuned, grid=grid, runtime=runtime)

    @torch.inference_mode()
    def embed_images(self, features: ImageFeatures) -> Tensor:
        """Unit vectors by which candidates are found; M, E."""
        return _vectors(self._finder.encode_images(features))

    @torch.inference_mode()
    def embed_sentences(self, sentences: Sequence[str]) -> Tensor:
        """Unit vectors by which candidates are found; N, E."""
        return _vectors(self._finder.encode_sentences(sentences))

    @torch.inference_mode()
    def encode_images(self, features: ImageFeatures) -> tuple[Tensor, Batch]:
        """Images as both matchers see them: unit vectors (M, E) and what the reranker encoded."""
        encoded = self.reranker.encode_images(features)
        return (_vectors(encoded) if self.shortlist is None else self.embed_images(features)), encoded

    def read(self, sentences: Sequence[str]) -> None:
        """Let the language model read sentences together; asked for one by one soon after, they are known."""
        for matcher in (self._finder, *members_of(self.reranker)):
            if matcher.config.language_model:
                language_model().read(matcher.words_of(sentences))

    @torch.inference_mode()
    def prepare_images(self, images: Batch) -> Batch:
        """Whatever images alone decide of the reranker's scores, from what it encoded."""
        return self._scorer.prepare_images(images)

    @torch.inference_mode()
    def score(self, vectors: Tensor, images: Batch, sentences: Sequence[str]) -> Tensor:
        """Scores of all pairs of images, given as the vectors and the encodings of both matchers; M, N."""
        return self.score_prepared(vectors, self.prepare_images(images), sentences)

    @torch.inference_mode()
    def score_prepared(self, vectors: Tensor, images: Batch, sentences: Sequence[str]) -> Tensor:
        """As `score`, with images that are prepared already; M, N."""
        encoded = self.reranker.encode_sentences(sentences)
        scores = self._scorer.grid(images, self._scorer.prepare_sentences(encoded))
        if self.calibration.shortlist_weight:
            scores = scores + self.calibration.shortlist_weight * (vectors @ self.embed_sentences(sentences).T)
        return scores

    def matcher(self) -> Matcher:
        """Both as one matcher with the same scores, for whoever wants all pairs or knows matchers only."""
        weight = self.calibration.shortlist_weight
        if not weight or self.shortlist is None:
            return self.reranker
        both = Ensemble([self.reranker, self.shortlist])
        both.deviations[1] = 1 / weight
        return both.eval()

    def unknown_words(self, sentences: Sequence[str]) -> list[str]:
        """Words that the reranker does not know, in order of appearance."""
        return self.reranker.unknown_words(sentences)

    def read_as(self, sentences: Sequence[str]) -> dict[str, str]:
        """Misspelt words, and what the reranker reads them as."""
        return self.reranker.read_as(sentences)


def is_pair(folder: Path) -> bool:
    """Whether a folder is laid out as a pair."""
    return (folder / RERANKER).is_dir()


def load_pair(folder: Path) -> Pair:
    """Read a pair; runs no code from the folder."""
    if not is_pair(folder):
        raise InputError(f"{folder} is not a pair of models: it needs a folder {RERANKER}, and perhaps {SHORTLIST}")
    shortlist = Matcher.load(folder / SHORTLIST) if (folder / SHORTLIST).is_dir() else None
    reranker = Matcher.load(folder / RERANKER)
    calibration = _read_calibration(folder / CALIBRATION)
    return Pair(
        cast(MNLM | None, shortlist),
        reranker,
        calibration or Calibration(),
        calibrated=calibration is not None,
        digest=_digest(folder),
    )


def save_pair(
    folder: Path,
    shortlist: Matcher | None,
    reranker: Matcher,
    calibration: Calibration | None,
    *,
    measured: dict[str, Any] | None = None,
    half: bool = False,
) -> None:
    """Write a pair as `load_pair` reads it; `measured` is for people, `half` halves the files."""
    # Refuses two that do not fit together.
    Pair(cast(MNLM | None, shortlist), reranker, calibration or Calibration())
    for matcher, part in ((shortlist, SHORTLIST), (reranker, RERANKER)):
        if matcher is None:
            continue
        save(_halved(matcher) if half else matcher, folder / part, with_backbone=False)
    save_backbone(reranker, folder)
    if calibration is not None:
        content = {**calibration.model_dump(mode="json"), **({"measured": measured} if measured else {})}
        (folder / CALIBRATION).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def _vectors(encoded: Batch) -> Tensor:
    """Unit vectors of one side: an MNLM's, or those that an sm-LSTM's global score compares."""
    if isinstance(encoded, Embedded):
        return encoded.vectors
    whole = cast(EncodedSide, encoded).whole
    assert whole is not None
    return torch.nn.functional.normalize(whole, dim=1)


def _halved(matcher: Matcher) -> Matcher:
    """A copy in half precision; what an ensemble weighs its members by keeps its digits."""
    halved = copy.deepcopy(matcher)
    for member in members_of(halved):
        member.half()
    return halved


def _read_calibration(path: Path) -> Calibration | None:
    try:
        return Calibration.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValidationError as error:
        problem = error.errors()[0]
        if not problem["loc"]:
            raise ConfigurationError(f"{path}: {problem['msg']}") from None
        field = ".".join(map(str, problem["loc"]))
        raise ConfigurationError(f"{path}: {field}: {problem['msg']} (found {problem['input']!r})") from None


def _digest_of(*matchers: Matcher) -> str:
    """A hash of matchers that come from no folder."""

    def parts() -> Iterator[str | bytes]:
        yield _ENCODING
        for matcher in matchers:
            yield matcher.config.model_dump_json() + matcher.vocabulary.to_json()
            for name, tensor in matcher.state_dict().items():
                yield name
                yield tensor.detach().cpu().contiguous().numpy().tobytes()

    return fingerprint(parts(), 16)


def _digest(folder: Path) -> str:
    """A hash of both matchers' files; the calibration changes no encoding and has no part in it."""
    files = [path for part in (SHORTLIST, RERANKER) for path in sorted((folder / part).rglob("*")) if path.is_file()]
    parts = [
        path.relative_to(folder).as_posix().encode() + b"\0" + bytes.fromhex(fingerprint([path], 64)) for path in files
    ]
    return fingerprint([_ENCODING, *parts], 16)
