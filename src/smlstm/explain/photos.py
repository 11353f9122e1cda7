"""From photos to explanations: features by the matcher's own backbone, or out of a store."""

from collections.abc import Sequence
from pathlib import Path

from smlstm.data import Features, Record
from smlstm.explain.explanation import Explanation, explain
from smlstm.matching.batch import ImageFeatures
from smlstm.matching.matcher import Matcher
from smlstm.vision import UnreadablePhoto
from smlstm.vision.backbones import Backbone
from smlstm.vision.photo_features import PhotoReader
from smlstm.vision.shown_photo import shown


def explain_photos(
    matcher: Matcher,
    paths: Sequence[str | Path],
    sentences: Sequence[str],
    *,
    backbone: Backbone | None = None,
    grid: int | None = None,
    runtime: str = "auto",
) -> list[Explanation]:
    """Explain every photo with every sentence, photo by photo.

    The features come from the backbone that the matcher was trained with, unless one is given.
    """
    matcher.tokens(sentences)  # a sentence without words is refused before the long work
    photos = [shown(path) for path in paths]
    reader = PhotoReader(matcher.config, matcher.tuned, grid=grid, runtime=runtime, backbone=backbone)
    features = ImageFeatures.from_numpy(*reader.read(paths))
    pairs = [(image, sentence) for image in range(len(paths)) for sentence in range(len(sentences))]
    return explain(matcher, features, sentences, pairs, names=[Path(path).name for path in paths], photos=photos)


def explain_records(
    matcher: Matcher, features: Features, records: Sequence[Record], captions: int = 1
) -> list[Explanation]:
    """Explain images of a dataset with their first captions, from stored features; photos are shown where they are."""
    found: list[Explanation] = []
    for record in records:
        regions, context = features.read([record.key])
        try:
            photos = [shown(record.path)]
        except UnreadablePhoto:
            photos = None
        sentences = record.captions[:captions]
        one = ImageFeatures.from_numpy(regions, context)
        pairs = [(0, number) for number in range(len(sentences))]
        found += explain(matcher, one, sentences, pairs, names=[record.key], photos=photos)
    return found
