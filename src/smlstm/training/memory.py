"""Keeping freed memory for the next step.

A step frees hundreds of tensors of some megabytes, and glibc gives such blocks back to the system at once, which must
then clear new pages for the next step: with two threads a small model's steps took more than twice as long.
"""

import ctypes
import sys

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of malloc.h
_LARGE = 1 << 30


def keep_freed_memory() -> bool:
    """Ask the C library to keep what is freed, up to a gigabyte at a time; False where it cannot be asked."""
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # musl has none
    if mallopt is None:
        return False
    return bool(mallopt(_MMAP_THRESHOLD, _LARGE)) and bool(mallopt(_TRIM_THRESHOLD, _LARGE))
