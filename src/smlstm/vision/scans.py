"""How many scans a JPEG has, counted without decoding it.

Every scan of a progressive JPEG goes over all pixels again, and a few bytes ask for one. A real photo has about ten.
"""

import re

MOST_SCANS = 100

# Any marker but what stands within a scan: stuffed bytes, restarts and filling.
_MARKER = re.compile(rb"\xff[\x01-\xcf\xd8-\xfe]")
_START_OF_SCAN, _END_OF_IMAGE = 0xDA, 0xD9
_WITHOUT_LENGTH = (0x01, 0xD8)


def count_scans(data: bytes) -> int:
    """Count the scans of the first image in a file, to no more than one above `MOST_SCANS`."""
    scans, place = 0, 2
    while scans <= MOST_SCANS and (found := _MARKER.search(data, place)) is not None:
        place, marker = found.end(), data[found.end() - 1]
        if marker == _END_OF_IMAGE:
            break
        if marker not in _WITHOUT_LENGTH:
            place += max(2, int.from_bytes(data[place : place + 2], "big"))
        scans += marker == _START_OF_SCAN
    return scans
