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


def settle_device(wanted: torch.device | str | None, here: torch.device) -> torch.device:
    """The device that is meant, for a matcher that is somewhere: `cuda` is its own GPU, `cuda:1` is that very one."""
    if wanted is None:
        return here
    device = torch.device(wanted)
    # A CPU has no second one, though torch tells `cpu` and `cpu:0` apart.
    unsaid = device.index is None or device.type == "cpu"
    return here if unsaid and device.type == here.type else device
