"""From photos to explanations: features by the matcher's own backbone, or out of a store."""

import math
from collections.abc import Sequence
from pathlib import Path

import torch
from PIL import Image

from smlstm.data import Features, Record
from smlstm.errors import ConfigurationError, InputError
from smlstm.explain.explanation import Explanation, explain
from smlstm.matching.batch import ImageFeatures
from smlstm.matching.matcher import Matcher
from smlstm.vision import UnreadablePhoto, read_photo
from smlstm.vision.backbones import Backbone, load_backbone
from smlstm.vision.extract import Extractor

SHOWN_SIDE = 640
"""Photos are shown with their longer side at most this many pixels."""


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
    network = load_photo_backbone(matcher, grid=grid) if backbone is None else backbone
    features = extract_features(network, paths, runtime)
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
        one = ImageFeatures(torch.from_numpy(regions), torch.from_numpy(context))
        pairs = [(0, number) for number in range(len(sentences))]
        found += explain(matcher, one, sentences, pairs, names=[record.key], photos=photos)
    return found


def load_photo_backbone(matcher: Matcher, *, grid: int | None = None, weights: Path | None = None) -> Backbone:
    """Load the backbone whose features the matcher was trained on.

    The grid is the trained one where the configuration says how many regions there were, else the backbone's
    own; no weight depends on it, but maps are best on the grid that was trained.
    """
    name = matcher.config.backbone
    if not name:
        raise ConfigurationError("the model does not say which backbone made its features: it cannot read photos")
    side = trained_grid(matcher) if grid is None else grid
    network = load_backbone(name, grid=side, weights=weights)
    widths = (matcher.config.region_width, matcher.config.context_width)
    if (network.region_width, network.context_width) != widths:
        raise ConfigurationError(
            f"{name} gives regions of {network.region_width} and a context of {network.context_width}, the model was "
            f"made for {widths[0]} and {widths[1]}"
        )
    return network


def trained_grid(matcher: Matcher) -> int | None:
    """Side of the grid that a matcher was trained on, if its configuration has it."""
    regions = matcher.config.regions
    return math.isqrt(regions) if regions else None


def extract_features(backbone: Backbone, paths: Sequence[str | Path], runtime: str = "auto") -> ImageFeatures:
    """Features of some photos, as `smlstm extract` would store them; an unreadable photo is refused."""
    if not paths:
        raise InputError("there is no photo to look at")
    extractor = Extractor(backbone, runtime=runtime)
    batches = []
    for batch in extractor.extract((str(path), Path(path)) for path in paths):
        for skipped in batch.skipped:
            raise skipped.error()
        batches.append((torch.from_numpy(batch.regions), torch.from_numpy(batch.context)))
    return ImageFeatures(torch.cat([regions for regions, _ in batches]), torch.cat([each for _, each in batches]))


def shown(path: str | Path, side: int = SHOWN_SIDE) -> Image.Image:
    """A photo at the size at which it is shown, in its own proportions."""
    photo = read_photo(path, at_least=side)
    photo.thumbnail((side, side), Image.Resampling.LANCZOS)
    return photo
