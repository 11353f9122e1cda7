"""Is the attention of saved models right? Deletion, insertion, and pointing where places are known."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from smlstm.data import Dataset, Features, Record
from smlstm.data.entities import Entities, PhrasedPhoto
from smlstm.data.scene_folder import PlacedObjects, has_places, read_places
from smlstm.errors import InputError
from smlstm.evaluation.attention import Done, Pointing, measure_pointing
from smlstm.evaluation.gallery import Gallery, read_gallery, spoken_records
from smlstm.evaluation.models import Candidate
from smlstm.evaluation.phrases import PhrasePointing, can_point, measure_phrases
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


@dataclass(frozen=True, eq=False)
class PhraseGallery:
    """Photos of a split whose captions' phrases have boxes."""

    data: str
    records: tuple[Record, ...]
    photos: tuple[PhrasedPhoto, ...]
    notes: tuple[str, ...] = ()


def read_phrase_gallery(dataset: Dataset, split: str, entities: Entities, images: int | None = None) -> PhraseGallery:
    """The photos of a split that the folder of phrases knows, or the first of them."""
    gallery, records, notes = read_gallery(dataset, split, images)
    known = tuple(record for record in spoken_records(gallery, records) if record.key in entities)
    if not known:
        raise InputError(f"{entities.folder} has phrases of none of the {len(gallery.keys)} photos of {split}")
    if len(known) < len(gallery.keys):
        notes = [*notes, f"{len(gallery.keys) - len(known)} of {len(gallery.keys)} photos have no phrases: left out"]
    return PhraseGallery(gallery.data, known, tuple(entities.read(record.key) for record in known), tuple(notes))


def measure_on_phrases(
    candidates: Sequence[Candidate], features: dict[str, Features], gallery: PhraseGallery, bar: Bar
) -> Iterator[tuple[str, PhrasePointing]]:
    """Each model in turn: those that attend by their maps, an MNLM by the plain cosine of its joint space."""
    keys = [record.key for record in gallery.records]
    for candidate in candidates:
        store = features[candidate.matcher.config.backbone]

        def read(places: Sequence[int], store: Features = store) -> ImageFeatures:
            return ImageFeatures.from_numpy(*store.read([keys[place] for place in places]))

        with bar(f"{candidate.name}: pointing at phrases") as done:
            yield candidate.name, measure_phrases(candidate.matcher, gallery.photos, read, progress=done)


def refuse_blind(candidates: Sequence[Candidate]) -> None:
    """Refuse models without attention before anything long begins."""
    for candidate in candidates:
        if not candidate.matcher.attends:
            raise InputError(
                f"{candidate.name} has no attention ({candidate.matcher.kind}): there is nothing to measure; "
                "an sm-LSTM (full, att), DVSA or SCAN has"
            )


def refuse_pointless(candidates: Sequence[Candidate]) -> None:
    """Refuse models that have no map of a phrase, before anything long begins."""
    for candidate in candidates:
        if not can_point(candidate.matcher):
            raise InputError(
                f"{candidate.name} ({candidate.matcher.kind}) has neither attention nor a joint space that regions can "
                "be projected into: it cannot point at a phrase; an sm-LSTM, DVSA, SCAN or an MNLM can"
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
