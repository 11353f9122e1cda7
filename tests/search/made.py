"""A small pair of models that reads real EfficientNet-Lite0 features, and folders of drawn scenes."""

import io
from pathlib import Path

import torch
from PIL import Image

from smlstm.data.scenes import compose
from smlstm.model import MNLM, SMLSTM, MNLMConfig, SMLSTMConfig
from smlstm.pair import Calibration
from smlstm.pair.pair import save_pair
from smlstm.text import Vocabulary

SENTENCES = ["a red circle above a blue square on a green meadow", "a dog runs on the beach", "two yellow stars"]
GRID = 2
CALIBRATION = Calibration(scale=2.0, offset=0.5, short_scale=-1.0, short_offset=0.4)
"""Which tells short sentences from long ones."""
_WIDTHS = dict(region_width=1280, context_width=1280, regions=GRID * GRID, backbone="efficientnet-lite0", max_words=20)


def make_pair(folder: Path, seed: int = 0, calibration: Calibration | None = None) -> Path:
    """Save a pair with random weights: it orders photos in some way, always the same."""
    torch.manual_seed(seed)
    words = Vocabulary.build(SENTENCES)
    shortlist = MNLM(MNLMConfig(**_WIDTHS, embedding_width=16, sentence_width=24), words)
    sizes = dict(embedding_width=16, word_width=12, sentence_width=10, attention_width=8)
    reranker = SMLSTM(SMLSTMConfig(**_WIDTHS, **sizes, similarity_width=14, hidden_width=9), words)
    with torch.no_grad():
        for parameter in reranker.parameters():
            parameter.mul_(3.0)  # so that photos do not score all alike
    save_pair(folder, shortlist, reranker, calibration or CALIBRATION)
    return folder


def draw(folder: Path, count: int, seed: int = 0, size: int = 64) -> list[Path]:
    """Write so many different pictures, numbered from 0."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for number, scene in enumerate(compose(seed, count, size=size)):
        paths.append(folder / f"{number:03}.png")
        scene.picture.save(paths[-1])
    return paths


def jpeg(taken: str | None = None, colour: str = "red", size: tuple[int, int] = (60, 40), turned: int = 1) -> bytes:
    """A picture of one colour with a camera's date, as `2024:05:01 10:00:00`."""
    exif = Image.Exif()
    exif[0x0112] = turned
    if taken is not None:
        exif.get_ifd(0x8769)[0x9003] = taken
    file = io.BytesIO()
    Image.new("RGB", size, colour).save(file, "JPEG", exif=exif)
    return file.getvalue()
