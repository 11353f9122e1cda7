"""A pair of models that has learned a dozen drawn pictures by heart, and servers of libraries of them."""

import contextlib
import io
import socket
import struct
import threading
import zlib
from collections.abc import Iterator
from pathlib import Path

import torch
import uvicorn
from fastapi import FastAPI
from PIL import Image
from torch.nn import functional

from smlstm.data.scenes import Scene, compose
from smlstm.matching import ImageFeatures
from smlstm.matching.matcher import Matcher
from smlstm.model import MNLM, SMLSTM, MNLMConfig, SMLSTMConfig
from smlstm.pair import Calibration, Pair
from smlstm.text import Vocabulary
from smlstm.vision.photo_features import PhotoReader

GRID = 4
COUNT = 30
_WIDTHS = dict(region_width=1280, context_width=1280, regions=GRID * GRID, backbone="efficientnet-lite0", max_words=20)
ADDRESS = "http://127.0.0.1:8765"


def scenes() -> list[Scene]:
    """Pictures of one object each, no two with the same colour and shape; a caption tells which."""
    found: dict[tuple[str, str], Scene] = {}
    for scene in compose(3, 10 * COUNT, size=96, objects=(1,)):
        found.setdefault((scene.objects[0].colour, scene.objects[0].shape), scene)
    return list(found.values())[:COUNT]


def caption(scene: Scene) -> str:
    """What to ask for to find a picture."""
    return f"a {scene.objects[0].colour} {scene.objects[0].shape}"


def name_of(scene: Scene) -> str:
    """The file of a picture, named by what it shows."""
    return f"{'-'.join(scene.objects[0].words)}.png"


def save(pictures: list[Scene], folder: Path) -> list[Path]:
    """Write pictures, named by what they show."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / name_of(scene) for scene in pictures]
    for scene, path in zip(pictures, paths, strict=True):
        scene.picture.save(path)
    return paths


def learned_pair(pictures: list[Scene], **options: object) -> Pair:
    """A pair that knows these pictures; options are those of its sm-LSTM."""
    torch.manual_seed(0)
    captions = [caption(scene) for scene in pictures]
    words = Vocabulary.build([*captions, "on grass"])
    shortlist = MNLM(MNLMConfig(**_WIDTHS, embedding_width=16, sentence_width=32), words)
    sizes = dict(embedding_width=16, word_width=16, sentence_width=16, attention_width=16)
    reranker = SMLSTM(SMLSTMConfig(**_WIDTHS, **sizes, similarity_width=24, hidden_width=16, **options), words)
    reader = PhotoReader(reranker.config, runtime="torch")
    pixels = [reader.extractor.backbone.preprocess(scene.picture) for scene in pictures]
    features = ImageFeatures.from_numpy(*reader.read_pixels(pixels))
    for matcher, sharpness in ((shortlist, 10.0), (reranker, 1.0)):
        _learn(matcher, features, captions, sharpness)
    return Pair(shortlist, reranker, Calibration(scale=2.0, offset=-2.0))


def _learn(matcher: Matcher, features: object, captions: list[str], sharpness: float) -> None:
    optimiser = torch.optim.Adam(matcher.parameters(), 0.01)
    right = torch.arange(len(captions))
    matcher.train()
    for _ in range(150):
        scores = sharpness * matcher.score(matcher.encode_images(features), matcher.encode_sentences(captions))
        loss = functional.cross_entropy(scores, right) + functional.cross_entropy(scores.T, right)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        if loss < 0.05:
            break
    matcher.eval()


def upload(picture: Image.Image | bytes, name: str = "sent.png") -> tuple[str, tuple[str, bytes, str]]:
    """A picture as a client sends it."""
    if isinstance(picture, Image.Image):
        file = io.BytesIO()
        picture.save(file, "PNG")
        picture = file.getvalue()
    return ("photos", (name, picture, "image/png"))


def bomb(width, height):
    """A PNG whose header promises more pixels than anyone has memory for."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    rows = chunk(b"IDAT", zlib.compress(bytes(1000)))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + rows + chunk(b"IEND", b"")


@contextlib.contextmanager
def serving(app: FastAPI) -> Iterator[str]:
    """A real server on a free port of this machine."""
    found = socket.create_server(("127.0.0.1", 0))
    # A browser may keep a connection that says nothing: without a limit, a server waits for its end for ever.
    config = uvicorn.Config(app, log_config=None, access_log=False, ws="none", timeout_graceful_shutdown=5)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([found],))
    thread.start()
    try:
        yield f"http://127.0.0.1:{found.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        found.close()
