"""Damaged feature stores: told, or as they were."""

import random
import shutil

from tests.campaign import made
from tests.campaign.kill_work import compare_stores, reference_store
from tests.campaign.mutation import damage_file
from tests.campaign.verdict import Verdict
from tests.campaign.workplace import Workplace


def damaged_store(rng: random.Random, place: Workplace) -> Verdict:
    """Damage a file of a store: `data check` finds it, and whoever reads or continues it gets a sentence."""
    reference, pool = reference_store(place), made.pool(place.base)
    for number in range(15):
        store = place.folder / f"store-{number}"
        shutil.copytree(reference, store)
        told = damage_file(rng, rng.choice([store / name for name in ("store.json", "records.f16", "journal.log")]))
        findings = len(place.verdict.findings)
        checked = place.quick("data", "check", store, codes=(0, 1, 3))
        if checked.code == 0 or rng.random() < 0.2:
            # A journal that ends early is that of a killed writer: who goes on extracts the rest.
            codes = (0,) if checked.code == 0 else (0, 1, 2, 3)
            continued = place.quick("extract", pool, "--out", store, "--grid", 2, "--runtime", "torch", codes=codes)
            if checked.code == continued.code == 0:
                compare_stores(reference, store, place.verdict)
        if len(place.verdict.findings) > findings:
            place.verdict.add("wrong", f"before that: {told}", count=0)
        shutil.rmtree(store)
    return place.verdict
