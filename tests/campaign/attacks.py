"""All attacks by name."""

import importlib
import random
from collections.abc import Callable

from tests.campaign.verdict import Verdict
from tests.campaign.workplace import Workplace

Attack = Callable[[random.Random, Workplace], Verdict]

ATTACKS = {
    "kill-index": "kills:kill_index",
    "kill-prune": "kills:kill_prune",
    "kill-repair": "kills:kill_repair",
    "kill-serve": "kills:kill_serve",
    "kill-extract": "kill_work:kill_extract",
    "kill-train": "kill_work:kill_train",
    "changing-files": "changing_files:changing_files",
    "full-disk-index": "full_disk:full_disk_index",
    "full-disk-prune": "full_disk:full_disk_prune",
    "full-disk-work": "full_disk:full_disk_work",
    "damaged-images": "damaged_images:damaged_images",
    "damaged-images-extract": "damaged_images:damaged_images_extract",
    "damaged-model": "damaged_models:damaged_model",
    "damaged-run": "damaged_models:damaged_run",
    "damaged-configuration": "damaged_models:damaged_configuration",
    "damaged-store": "damaged_store:damaged_store",
    "damaged-library": "damaged_library:damaged_library",
    "hostile-http": "hostile_http:hostile_http",
    "holding-connections": "hostile_http:holding_connections",
    "askers": "askers:askers",
    "askers-http": "askers:askers_http",
    "askers-shipped": "askers:askers_shipped",
    "askers-http-shipped": "askers:askers_http_shipped",
}
"""The file and function of each, imported only where it runs: torch takes seconds."""


def load(name: str) -> Attack:
    """The attack of some name."""
    module, _, function = ATTACKS[name].partition(":")
    found: Attack = getattr(importlib.import_module(f"tests.campaign.{module}"), function)
    return found
