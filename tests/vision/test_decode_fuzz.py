"""Thousands of mutated files through the decoder: a photo or `UnreadablePhoto`, in bounded time and memory.

`SMLSTM_FUZZ=100000 pytest tests/vision/test_decode_fuzz.py` runs more of them.
"""

import faulthandler
import io
import os
import random
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import psutil
import pytest
from PIL import Image
from tests.vision.made_raw import dng

from smlstm.vision import UnreadablePhoto, decode_photo

COUNT = int(os.environ.get("SMLSTM_FUZZ", "8000"))
LIMIT_MEGAPIXELS = 4.0
MEMORY_BYTES = 600 * 2**20
# A file of a few kilobytes takes milliseconds, on a machine that is overrun perhaps a second.
HANG_SECONDS = 60
ABSURD = (0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF)


def seeds() -> list[bytes]:
    """Small valid files of every format in several of its pixel layouts."""
    noise = Image.effect_noise((40, 30), 50)
    colour = Image.merge("RGB", (noise, noise.rotate(180), noise.transpose(Image.Transpose.FLIP_LEFT_RIGHT)))
    deep = Image.fromarray(np.linspace(0, 65535, 1200).astype(np.uint16).reshape(30, 40))
    exif = Image.Exif()
    exif[0x0112] = 6
    wanted: list[tuple[Image.Image, str, dict[str, object]]] = [
        (colour, "JPEG", {"exif": exif}),
        (colour, "JPEG", {"progressive": True}),
        (colour.convert("CMYK"), "JPEG", {}),
        (noise, "JPEG", {}),
        (colour, "PNG", {}),
        (colour.convert("RGBA"), "PNG", {}),
        (colour.convert("P"), "PNG", {"transparency": 3}),
        (deep, "PNG", {}),
        (colour, "PNG", {"save_all": True, "append_images": [colour.rotate(90)]}),
        (colour, "WEBP", {"exif": exif}),
        (colour.convert("RGBA"), "WEBP", {"lossless": True}),
        (colour, "WEBP", {"save_all": True, "append_images": [colour.rotate(90)]}),
        (colour, "AVIF", {}),
        (colour.convert("P"), "GIF", {"save_all": True, "append_images": [noise.convert("P")]}),
        (colour, "BMP", {}),
        (colour.convert("P"), "BMP", {}),
        (colour, "TIFF", {}),
        (colour, "TIFF", {"compression": "tiff_lzw"}),
        (colour, "TIFF", {"compression": "tiff_deflate", "exif": exif}),
        (colour, "TIFF", {"compression": "jpeg"}),
        (colour.convert("1"), "TIFF", {"compression": "group4"}),
        (deep, "TIFF", {}),
        (Image.fromarray(np.ones((30, 40), np.float32)), "TIFF", {}),
    ]
    files = []
    for image, form, options in wanted:
        buffer = io.BytesIO()
        image.save(buffer, form, **options)
        files.append(buffer.getvalue())
    heif = import_module("pillow_heif") if find_spec("pillow_heif") else None
    if heif is not None:
        buffer = io.BytesIO()
        heif.from_pillow(colour).save(buffer)
        files.append(buffer.getvalue())
    if find_spec("rawpy"):
        files.append(dng(64, 48))
    return files


def mutate(rng: random.Random, files: list[bytes]) -> bytes:
    data = bytearray(rng.choice(files))
    for _ in range(rng.choice((1, 1, 2, 4, 16))):
        # Headers decide more than pixels do, so half of all changes fall there.
        reach = len(data) if rng.random() < 0.5 else min(len(data), 128)
        at = rng.randrange(max(1, reach))
        match rng.randrange(7):
            case 0 if at < len(data):
                data[at] ^= 1 << rng.randrange(8)
            case 1:
                data[at : at + rng.choice((1, 2, 4))] = rng.randbytes(rng.choice((1, 2, 4)))
            case 2:
                form = rng.choice(("<B", "<H", ">H", "<I", ">I"))
                mask = (1 << 8 * struct.calcsize(form)) - 1
                number = struct.pack(form, rng.choice(ABSURD) & mask)
                data[at : at + len(number)] = number
            case 3:
                del data[at:]
            case 4:
                del data[at : at + rng.randrange(1, 64)]
            case 5:
                other = rng.choice(files)
                start = rng.randrange(len(other))
                data[at:at] = other[start : start + rng.randrange(1, 256)]
            case _:
                data[at:at] = data[at : at + rng.randrange(1, 256)]
    return bytes(data)


@contextmanager
def hang_is_a_crash(file: Path, data: bytes) -> Iterator[None]:
    """End the whole run, with the stack, if one file takes longer than any that is not hanging; the file stays."""
    file.write_bytes(data)
    faulthandler.dump_traceback_later(HANG_SECONDS, exit=True)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()


@pytest.mark.slow
@pytest.mark.parametrize("at_least", [None, 16])
def test_mutated_files_are_photos_or_refused(at_least, tmp_path):
    rng = random.Random(20170718 + (at_least or 0))
    files = seeds()
    process = psutil.Process()
    before = process.memory_info().rss
    read = refused = 0
    for _ in range(COUNT // 2):
        data = mutate(rng, files)
        try:
            with hang_is_a_crash(tmp_path / "under_way", data):
                photo = decode_photo(data, at_least=at_least, limit_megapixels=LIMIT_MEGAPIXELS)
        except UnreadablePhoto as unreadable:
            refused += 1
            assert unreadable.reason
        else:
            read += 1
            assert photo.mode == "RGB"
            assert photo.width * photo.height <= LIMIT_MEGAPIXELS * 1e6
        assert process.memory_info().rss - before < MEMORY_BYTES
    assert read > COUNT // 100, "mutations so heavy that nothing is ever decoded test little"
    assert refused > COUNT // 100


def test_a_file_that_hangs_ends_the_run_with_the_stack(tmp_path):
    code = (
        "import sys, time; from pathlib import Path; import tests.vision.test_decode_fuzz as fuzz\n"
        "fuzz.HANG_SECONDS = 0.2\n"
        "with fuzz.hang_is_a_crash(Path(sys.argv[1]), b'hostile'): time.sleep(600)"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "under_way")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2])
    assert done.returncode == 1
    assert "Timeout" in done.stderr
    assert (tmp_path / "under_way").read_bytes() == b"hostile"
