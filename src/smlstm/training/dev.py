"""Dev metrics: all pairs of a bounded number of images and their captions."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from smlstm.evaluation import Metrics, metrics, ranks
from smlstm.evaluation.phrases import measure_phrases
from smlstm.matching.batch import ImageFeatures
from smlstm.matching.matcher import Matcher
from smlstm.scoring import Stream, score_all
from smlstm.scoring.progress import ProgressCallback
from smlstm.training.examples import Examples
from smlstm.training.step import needs_regions

_BLOCK = 50
"""Images read at a time."""


@dataclass(frozen=True)
class DevMetrics:
    """Both directions, and the field's Sum of the six hit rates."""

    annotation: Metrics
    retrieval: Metrics
    images: int
    pointing: dict[str, float] | None = None
    """Shares of dev phrases that each kind of map points at; None where no phrases are known."""

    @classmethod
    def of(cls, scores: npt.NDArray[np.float32], image_of: npt.NDArray[np.int64]) -> "DevMetrics":
        """Of the scores of all pairs, and which image each caption describes."""
        found = ranks(scores, image_of)
        return cls(metrics(found.annotation), metrics(found.retrieval), len(scores))

    @property
    def sum(self) -> float:
        """The Sum that decides which model is best."""
        return self.annotation.sum + self.retrieval.sum

    def to_dict(self) -> dict[str, Any]:
        """As a line of the metrics file has it."""
        sides = {"annotation": asdict(self.annotation), "retrieval": asdict(self.retrieval)}
        found = {"sum": self.sum, "images": self.images, **sides}
        return found if self.pointing is None else {**found, "pointing": self.pointing}


def dev_metrics(matcher: Matcher, examples: Examples) -> DevMetrics:
    """Measure a matcher as it would be used: all pairs, without dropout."""
    found = DevMetrics.of(*dev_scores(matcher, examples))
    return replace(found, pointing=dev_pointing(matcher, examples))


def dev_pointing(matcher: Matcher, examples: Examples) -> dict[str, float] | None:
    """The pointing game on the dev photos whose phrases have boxes."""
    if examples.phrased is None or not matcher.attends:
        return None
    marked = [image for image in np.unique(examples.image_of) if examples.phrased[image] is not None]
    photos = [photo for photo in (examples.phrased[image] for image in marked) if photo is not None]
    if not photos:
        return None
    numbers = np.array(marked, np.int64)
    found = measure_phrases(matcher, photos, lambda places: examples.images.read(numbers[np.asarray(places)]))
    shares = {each.name: each.hits.value for each in found.maps}
    return shares if found.captions_covered is None else {**shares, "captions covered": found.captions_covered}


def dev_scores(
    matcher: Matcher, examples: Examples, progress: ProgressCallback | None = None
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
    """Scores of all pairs (images, captions), and which of the images each caption describes."""
    row_of = np.unique(examples.image_of, return_inverse=True)[1]
    return score_sentences(matcher, examples, examples.captions, progress), row_of.astype(np.int64)


def score_sentences(
    matcher: Matcher, examples: Examples, sentences: Sequence[str], progress: ProgressCallback | None = None
) -> npt.NDArray[np.float32]:
    """Scores of all images that have captions with any sentences; images, sentences."""
    images = np.unique(examples.image_of)

    def blocks() -> Iterator[ImageFeatures]:
        for start in range(0, len(images), _BLOCK):
            yield examples.images.read(images[start : start + _BLOCK], needs_regions(matcher))

    return score_all(matcher, Stream(len(images), blocks()), sentences, progress=progress)
