"""Photos that are sent: decoded in memory as everywhere, looked at, and let go of."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from smlstm.errors import InputError
from smlstm.files import printable
from smlstm.matching.batch import ImageFeatures
from smlstm.vision import UnreadablePhoto
from smlstm.vision.decode import decoded_photo
from smlstm.vision.photo_header import about_photo
from smlstm.web import answers
from smlstm.web.problems import TooLarge

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from smlstm.vision.backbones import Backbone
    from smlstm.web.service import Service
    from smlstm.web.settings import Settings

MOST_PHOTOS = 8
Upload = tuple[str, bytes]


def features(service: "Service", photos: Sequence[Upload]) -> ImageFeatures:
    """What the CNN sees in photos that were sent; an unreadable one is refused by its name."""
    settings, reader = service.settings, service.library.photo_reader
    _check_pixels(photos, settings)
    pixels = [_pixels(reader.extractor.backbone, *photo, settings.megapixels) for photo in photos]
    return ImageFeatures.from_numpy(*reader.read_pixels(pixels))


def _check_pixels(photos: Sequence[Upload], settings: "Settings") -> None:
    """Refuse photos that are each small enough, but not all together."""
    headers = [about_photo(data) for _, data in photos]
    megapixels = [(each.width or 0) * (each.height or 0) / 1e6 for each in headers]
    together = sum(each for each in megapixels if each <= settings.megapixels)  # others are refused by their name
    if together > settings.request_megapixels:
        raise TooLarge(
            f"the photos have {together:.0f} megapixels together, and those of a request may have "
            f"{settings.request_megapixels:g}: send fewer at once, or smaller ones"
        )


def _pixels(backbone: "Backbone", name: str, data: bytes, limit: float) -> "NDArray[np.uint8]":
    """A photo as the CNN takes it, S x S x 3: of the photo itself nothing is kept."""
    try:
        with decoded_photo(data, name=name, at_least=backbone.input_size, limit_megapixels=limit) as photo:
            return backbone.preprocess(photo)
    except UnreadablePhoto as error:
        # Not the limit's name on the command line, which the sender cannot change.
        raise InputError(f"cannot read photo {name}: {error.reason.partition(' (--limit')[0]}") from None


def name(
    service: "Service", photos: Sequence[Upload], sentences: Sequence[str] | None, k: int, explain: bool
) -> answers.NameAnswer:
    """The sentences that match photos best."""
    if sentences:
        service.pair.reranker.tokens(sentences)  # refused before the long work
    seen = features(service, photos)
    vectors, images = service.pair.encode_images(seen)
    return service.named(vectors, images, [name for name, _ in photos], sentences=sentences, k=k, explain=explain)


def score(service: "Service", photos: Sequence[Upload], sentences: Sequence[str]) -> answers.ScoreAnswer:
    """The score of every photo with every sentence."""
    service.pair.reranker.tokens(sentences)
    seen = features(service, photos)
    scores = service.pair.score(*service.pair.encode_images(seen), sentences)
    return service.scored([name for name, _ in photos], sentences, scores)


def file_name(given: str | None, number: int) -> str:
    """What to call an upload in answers: the last part of its name, or its number."""
    last = printable(given or "").replace("\\", "/").rpartition("/")[2].strip()
    return last[:200] or f"photo {number + 1}"
