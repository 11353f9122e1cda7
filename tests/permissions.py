"""Permissions that hold for root as well, so that tests of them mean the same wherever they run."""

import os
import shutil

import pytest


def bounded_by_permissions() -> list[str]:
    """Give what must stand before a command so that files' permissions bind it."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        return []
    if shutil.which("setpriv") is None:
        pytest.skip("permissions do not bind root here, and there is no setpriv")
    return ["setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-all"]
