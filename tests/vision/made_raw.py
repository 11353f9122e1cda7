import struct

import numpy as np


def dng(width: int = 256, height: int = 192) -> bytes:
    """Write the smallest raw file that is one: an uncompressed Bayer mosaic with DNG's tags."""
    mosaic = np.full((height, width), 2000, "<u2")
    mosaic[::2, ::2] = 16000  # the red cells of an RGGB sensor
    mosaic[:, -32:] = 65535  # something white, or developing would brighten the red to white
    tags = [
        (254, 4, (0,)),
        (256, 4, (width,)),
        (257, 4, (height,)),
        (258, 3, (16,)),
        (259, 3, (1,)),
        (262, 3, (32803,)),
        (271, 2, b"Maker\x00"),
        (272, 2, b"Model\x00"),
        (273, 4, None),
        (274, 3, (1,)),
        (277, 3, (1,)),
        (278, 4, (height,)),
        (279, 4, (width * height * 2,)),
        (33421, 3, (2, 2)),
        (33422, 1, (0, 1, 1, 2)),
        (50706, 1, (1, 4, 0, 0)),
        (50708, 2, b"Model\x00"),
        (50710, 1, (0, 1, 2)),
        (50717, 4, (65535,)),
        (50728, 5, (1, 1, 1, 1, 1, 1)),
    ]
    codes = {1: "B", 3: "H", 4: "I", 5: "I"}
    beyond = 8 + 2 + 12 * len(tags) + 4
    extra = b""
    entries = b""
    pixels_at = beyond + 64
    for tag, kind, given in tags:
        values = (pixels_at,) if given is None else given
        packed = values if isinstance(values, bytes) else struct.pack(f"<{len(values)}{codes[kind]}", *values)
        if len(packed) > 4:
            field = struct.pack("<I", beyond + len(extra))
            extra += packed + b"\x00" * (len(packed) % 2)
        else:
            field = packed.ljust(4, b"\x00")
        entries += struct.pack("<HHI", tag, kind, len(values) // (2 if kind == 5 else 1)) + field
    assert len(extra) <= 64
    header = b"II*\x00\x08\x00\x00\x00" + struct.pack("<H", len(tags)) + entries + b"\x00" * 4
    return header + extra.ljust(64, b"\x00") + mosaic.tobytes()
