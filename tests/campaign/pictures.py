"""Broken and malicious pictures."""

import io
import random
import struct
import zlib
from pathlib import Path

from PIL import Image

from tests.campaign.mutation import damage

_SOS = b"\xff\xda"


def broken_picture(rng: random.Random, healthy: list[Path]) -> tuple[str, bytes]:
    """A name's ending and bytes: a damaged photo, or one made to do harm."""
    if rng.random() < 0.75:
        path = rng.choice(healthy)
        data = path.read_bytes()
        for _ in range(rng.choice((1, 1, 2, 5))):
            data = damage(rng, data)
        return rng.choice((path.suffix, path.suffix, ".jpg", ".png", "")) or ".jpg", data
    make = rng.choice((huge_header, many_scans, many_frames, zip_bomb, large_png, deep_exif))
    return make(rng)


def huge_header(rng: random.Random) -> tuple[str, bytes]:
    """A PNG that says it has billions of pixels."""
    width, height = rng.choice(((2**31 - 1, 2**31 - 1), (100_000, 100_000), (1, 2**31 - 1), (0, 0), (60_000, 1)))
    return ".png", _png(width, height, zlib.compress(bytes(1000)))


def many_scans(rng: random.Random) -> tuple[str, bytes]:
    """A progressive JPEG whose scans are repeated: each goes over all pixels again."""
    return scans(rng.choice((64, 1000, 7800)), rng.choice((50, 800)))


def scans(side: int, times: int) -> tuple[str, bytes]:
    """A picture of so many pixels and scans; 7800 and 9000 take a decoder minutes, and weigh 1.4 MB."""
    file = io.BytesIO()
    Image.new("RGB", (side, side), "red").save(file, "JPEG", progressive=True)
    data = file.getvalue()
    start = data.index(_SOS, data.index(_SOS) + 2)  # the second scan: a refinement or an AC band
    end = data.index(b"\xff", start + 14)
    while data[end + 1] in (0, 0xFF):
        end = data.index(b"\xff", end + 2)
    return ".jpg", data[:start] + data[start:end] * times + data[end:]


def many_frames(rng: random.Random) -> tuple[str, bytes]:
    """A GIF of many frames."""
    file = io.BytesIO()
    frames = [Image.new("P", (32, 32), number % 256) for number in range(rng.choice((2, 300)))]
    frames[0].save(file, "GIF", save_all=True, append_images=frames[1:], loop=0)
    return ".gif", file.getvalue()


def zip_bomb(rng: random.Random) -> tuple[str, bytes]:
    """A small PNG whose text, or whose pixels, unpack to far more."""
    text = zlib.compress(bytes(60_000_000 if rng.random() < 0.3 else 5_000_000))
    chunk = _chunk(b"zTXt", b"Comment\0\0" + text)
    whole = _png(8, 8, zlib.compress(bytes(8 * 25 + 30_000_000)))
    return ".png", whole[:33] + chunk + whole[33:]


def large_png(rng: random.Random) -> tuple[str, bytes]:
    """A PNG of many megapixels that weighs little."""
    side = rng.choice((4000, 7900, 9900))
    row = zlib.compress(bytes((1 + side) * side), 1)
    return ".png", _png(side, side, row, colour=0)


def deep_exif(rng: random.Random) -> tuple[str, bytes]:
    """A photo with metadata that point at themselves, and a date that is none."""
    exif = Image.Exif()
    exif[0x0112] = rng.choice((0, 1, 6, 9, 65535))
    exif.get_ifd(0x8769)[0x9003] = rng.choice(("0000:00:00 00:00:00", "9999:99:99 99:99:99", "\0", "x" * 3000))
    file = io.BytesIO()
    Image.new("RGB", (40, 30), "blue").save(file, "JPEG", exif=exif)
    data = file.getvalue()
    return ".jpg", damage(rng, data[:400]) + data[400:] if rng.random() < 0.5 else data


def _png(width: int, height: int, pixels: bytes, colour: int = 2) -> bytes:
    header = struct.pack(">IIBBBBB", width, height, 8, colour, 0, 0, 0)
    parts = (_chunk(b"IHDR", header), _chunk(b"IDAT", pixels), _chunk(b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
