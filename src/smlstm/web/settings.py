"""What a server allows: who may ask, how much at once, how large."""

import ipaddress
import os
from dataclasses import dataclass, field

MEGABYTE = 1 << 20


@dataclass(frozen=True)
class Settings:
    """All limits of a server, at values that suit one person's machine."""

    host: str = "127.0.0.1"
    token: str | None = field(default=None, repr=False)
    """What a request must carry; none is needed by default, where only this machine can ask."""
    hosts: tuple[str, ...] = ()
    """Further names under which the server may be asked for, such as that of a proxy in front of it."""
    folders: tuple[str, ...] = ()
    """Show only what lies below these; without any, the whole library."""
    upload_bytes: int = 32 * MEGABYTE
    """The most that a request with photos may weigh."""
    json_bytes: int = MEGABYTE
    """The most that any other request may weigh."""
    body_seconds: float = 60.0
    """How long a request may take to arrive."""
    idle_seconds: float = 10.0
    """How long the server waits for a request's head, for the next part of its body, for an answer to be taken."""
    arriving_bytes: int = 256 * MEGABYTE
    """The most that may have arrived of all uploads that are not whole yet; other requests have an eighth of it."""
    connections: int = 1024
    """The most that may be open; fewer where the system allows fewer files."""
    connections_each: int = 64
    """Of these, one client's; this machine may have all."""
    megapixels: float = 64.0
    """The most that an uploaded photo may have."""
    request_megapixels: float = 256.0
    """The most that all photos of a request may have together."""
    workers: int = field(default_factory=lambda: max(1, min(4, os.cpu_count() or 1)))
    """Questions that are worked on at once."""
    waiting: int = 64
    """Questions that may wait; the next one is told to come back."""
    waiting_each: int = 32
    """Of these, one client's."""

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach the server."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False
