"""Photos in: safe decoding, frozen backbones, the batch extractor."""

from smlstm.vision.decode import LIMIT_MEGAPIXELS, decode_photo, read_photo
from smlstm.vision.unreadable import UnreachablePhoto, UnreadablePhoto

__all__ = ["LIMIT_MEGAPIXELS", "UnreachablePhoto", "UnreadablePhoto", "decode_photo", "read_photo"]
