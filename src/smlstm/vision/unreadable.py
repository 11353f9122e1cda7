"""The two ways in which a photo cannot be had: its content is at fault, or the moment is."""

from pathlib import Path

from smlstm.errors import InputError


class UnreadablePhoto(InputError):
    """A file that is not a photo we can or want to decode; `reason` says why."""

    def __init__(self, path: Path | str, reason: str):
        super().__init__(f"cannot read photo {path}: {reason}")
        self.path = str(path)
        self.reason = reason


class UnreachablePhoto(UnreadablePhoto):
    """A photo that cannot be had now, through no fault of its own: away, forbidden, being written. Ask again later."""
