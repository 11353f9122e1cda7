"""Which image format a file holds, told by its first bytes; its name has no say."""

SNIFFED_BYTES = 64

_MAGIC = (
    (b"\xff\xd8\xff", "JPEG"),
    (b"\x89PNG\r\n\x1a\n", "PNG"),
    (b"GIF87a", "GIF"),
    (b"GIF89a", "GIF"),
    (b"BM", "BMP"),
    # Cameras' own formats; those that are TIFF inside are told apart once the TIFF header is read.
    (b"FUJIFILMCCD-RAW", "RAW"),
    (b"IIRO", "RAW"),
    (b"IIRS", "RAW"),
    (b"IIU\x00", "RAW"),
    (b"FOVb", "RAW"),
    (b"\x00MRM", "RAW"),
    (b"II*\x00", "TIFF"),
    (b"MM\x00*", "TIFF"),
    (b"II+\x00", "TIFF"),
    (b"MM\x00+", "TIFF"),
)
_HEIC_BRANDS = {b"heic", b"heix", b"hevc", b"hevx", b"heim", b"heis", b"mif1", b"msf1"}


def sniff(head: bytes) -> str | None:
    """Name the format of a file that begins with `head`, or None if it is not one we read."""
    for magic, name in _MAGIC:
        if head.startswith(magic):
            return "RAW" if name == "TIFF" and head[8:10] == b"CR" else name
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "WEBP"
    if head[4:8] == b"ftyp":
        brands = {head[at : at + 4] for at in range(8, len(head), 4)}
        if brands & {b"avif", b"avis"}:
            return "AVIF"
        if b"crx " in brands:
            return "RAW"
        if brands & _HEIC_BRANDS:
            return "HEIC"
    return None
