"""Photos that are sent: decoded in memory as everywhere, looked at, and let go of."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from smlstm.batch import ImageFeatures
from smlstm.errors import InputError
from smlstm.vision import UnreadablePhoto
from smlstm.vision.decode import decode_photo
from smlstm.web import answers
from smlstm.web.text import printable

if TYPE_CHECKING:
    from smlstm.web.service import Service

MOST_PHOTOS = 8
Upload = tuple[str, bytes]


def features(service: "Service", photos: Sequence[Upload]) -> ImageFeatures:
    """What the CNN sees in photos that were sent; an unreadable one is refused by its name."""
    eyes = service.library.eyes
    side = eyes.extractor.backbone.input_size
    pictures = []
    for name, data in photos:
        try:
            pictures.append(decode_photo(data, name=name, at_least=side, limit_megapixels=service.settings.megapixels))
        except UnreadablePhoto as error:
            # Not the limit's name on the command line, which the sender cannot change.
            raise InputError(f"cannot read photo {name}: {error.reason.partition(' (--limit')[0]}") from None
    return eyes.features_of(pictures)


def name(
    service: "Service", photos: Sequence[Upload], sentences: Sequence[str] | None, k: int, explain: bool
) -> answers.NameAnswer:
    """The sentences that match photos best."""
    if sentences:
        service.pair.reranker.tokens(sentences)  # refused before the long work
    seen = features(service, photos)
    vectors, images = service.pair.embed_images(seen), service.encode(seen)
    return service.named(vectors, images, [name for name, _ in photos], sentences=sentences, k=k, explain=explain)


def score(service: "Service", photos: Sequence[Upload], sentences: Sequence[str]) -> answers.ScoreAnswer:
    """The score of every photo with every sentence."""
    service.pair.reranker.tokens(sentences)
    seen = features(service, photos)
    scores = service.pair.score(service.pair.embed_images(seen), service.encode(seen), sentences)
    return service.scored([name for name, _ in photos], sentences, scores)


def file_name(given: str | None, number: int) -> str:
    """What to call an upload in answers: the last part of its name, or its number."""
    last = printable(given or "").replace("\\", "/").rpartition("/")[2].strip()
    return last[:200] or f"photo {number + 1}"
