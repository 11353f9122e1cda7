"""Is the attention of saved models right? Deletion, insertion, and pointing where places are known."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from smlstm.data import Dataset, Features, Record
from smlstm.data.scene_folder import PlacedObjects, has_places, read_places
from smlstm.errors import InputError
from smlstm.evaluation.attention import Done, Pointing, measure_pointing
from smlstm.evaluation.gallery import Gallery, read_gallery, spoken_records
from smlstm.evaluation.models import Candidate
from smlstm.evaluation.removal import Filler, Removal, measure_removal
from smlstm.matching.batch import ImageFeatures

PHOTOS = 100
"""Photos that are looked at unless told otherwise: intervals are narrow enough to tell attention from chance."""
Bar = Callable[[str], AbstractContextManager[Done]]
"""Opens a progress bar with a title."""
FILLERS: tuple[Filler, ...] = ("mean", "zero")


@dataclass(frozen=True, eq=False)
class AttentionGallery:
    """Pairs to look at: each photo with its first caption; the places of its objects where they are known."""

    gallery: Gallery
    records: tuple[Record, ...]
    captions: tuple[str, ...]
    places: tuple[PlacedObjects, ...] | None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class AttentionResult:
    """One model's numbers."""

    model: str
    removal: tuple[Removal, ...]
    """One for each filler."""
    pointing: Pointing | None

    def to_dict(self) -> dict[str, Any]:
        """Give the numbers as JSON would write them."""
        return {
            "model": self.model,
            "removal": [each.to_dict() for each in self.removal],
            "pointing": None if self.pointing is None else self.pointing.to_dict(),
        }


def read_attention_gallery(dataset: Dataset, split: str, images: int | None = None) -> AttentionGallery:
    """The first photos of a split with captions, and where their objects are if the dataset says it."""
    gallery, records, notes = read_gallery(dataset, split, PHOTOS if images is None else images)
    spoken = spoken_records(gallery, records)
    places = tuple(read_places(dataset.root, spoken)) if has_places(dataset.root) else None
    return AttentionGallery(gallery, spoken, tuple(each.captions[0] for each in spoken), places, tuple(notes))


def refuse_blind(candidates: Sequence[Candidate]) -> None:
    """Refuse models without attention before anything long begins."""
    for candidate in candidates:
        if not candidate.matcher.attends:
            raise InputError(
                f"{candidate.name} has no attention ({candidate.matcher.kind}): there is nothing to measure; "
                "an sm-LSTM (full, att), DVSA or SCAN has"
            )


def measure_attention(
    candidates: Sequence[Candidate],
    features: dict[str, Features],
    chosen: AttentionGallery,
    bar: Bar,
    fillers: Sequence[Filler] = FILLERS,
) -> Iterator[AttentionResult]:
    """Each model in turn; `features` are by the name of the backbone."""
    for candidate in candidates:
        store = features[candidate.matcher.config.backbone]
        regions, context = store.read(list(chosen.gallery.keys))
        images = ImageFeatures.from_numpy(regions, context)
        removal = []
        for filler in fillers:
            with bar(f"{candidate.name}: removing regions ({filler})") as done:
                removal.append(
                    measure_removal(candidate.matcher, images, chosen.captions, filler=filler, progress=done)
                )
        pointing = None
        if chosen.places is not None:
            with bar(f"{candidate.name}: pointing") as done:
                pointing = measure_pointing(candidate.matcher, chosen.places, images, progress=done)
        yield AttentionResult(candidate.name, tuple(removal), pointing)
