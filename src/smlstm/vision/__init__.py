"""Photos in: safe decoding, frozen backbones, the batch extractor."""

from smlstm.vision.decode import LIMIT_MEGAPIXELS, UnreadablePhoto, decode_photo, read_photo

__all__ = ["LIMIT_MEGAPIXELS", "UnreadablePhoto", "decode_photo", "read_photo"]
