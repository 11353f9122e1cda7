"""Where tensors live and are multiplied."""

import torch

from smlstm.errors import ConfigurationError


def choose_device(name: str) -> torch.device:
    """A device by name; auto is the first GPU, else the CPU."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        return torch.zeros(0, device=name).device
    except (RuntimeError, AssertionError) as error:
        raise ConfigurationError(f"device {name!r} cannot be used: {str(error).splitlines()[0]}") from None
