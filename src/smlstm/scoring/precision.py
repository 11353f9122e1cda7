"""Which number format the products run in.

bfloat16 halves the memory traffic and doubles (AVX512_BF16) or multiplies (AMX, tensor cores) the speed of a matrix
product where the hardware has it; elsewhere it is emulated and several times slower than float32.

The environment variable SMLSTM_PRECISION says what `auto` means: for those who want the same digits on every machine.
"""

import os
from pathlib import Path
from typing import Literal

import torch

from smlstm.errors import ConfigurationError

Precision = Literal["auto", "float32", "bfloat16"]
_NAMES = ("auto", "float32", "bfloat16")
_VARIABLE = "SMLSTM_PRECISION"


def choose_precision(precision: str, device: torch.device) -> torch.dtype:
    """The format to use: what was asked for, or, for `auto`, bfloat16 where it is native."""
    named = f"precision {precision!r}"
    if precision == "auto":
        precision = os.environ.get(_VARIABLE) or "auto"
        named = f"{_VARIABLE}={precision}"
    if precision not in _NAMES:
        raise ConfigurationError(f"{named} is unknown: choose one of {', '.join(_NAMES)}")
    if precision == "auto":
        return torch.bfloat16 if native_bfloat16(device) else torch.float32
    return torch.bfloat16 if precision == "bfloat16" else torch.float32


def native_bfloat16(device: torch.device) -> bool:
    """Whether the device multiplies bfloat16 matrices in hardware."""
    if device.type == "cuda":
        return torch.cuda.get_device_capability(device) >= (8, 0)  # Ampere; older ones emulate
    if device.type == "cpu":
        return bool({"avx512_bf16", "amx_bf16"} & _cpu_features())
    return False  # MPS: float32 and bfloat16 run at about the same rate


def _cpu_features() -> set[str]:
    """Flags of the CPU as Linux lists them; elsewhere what torch can tell."""
    listing = Path("/proc/cpuinfo")
    if listing.exists():
        lines = listing.read_text(errors="replace").splitlines()
        return {flag for line in lines if line.startswith("flags") for flag in line.split()}
    asked = getattr(torch.cpu, "_is_avx512_bf16_supported", None)
    return {"avx512_bf16"} if asked is not None and asked() else set()
