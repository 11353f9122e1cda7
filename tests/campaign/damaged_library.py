"""Damaged files of a library: told in a sentence, and repair and index bring everything back."""

import random
import shutil

from tests.campaign.libraries import indexed
from tests.campaign.mutation import damage_file
from tests.campaign.verdict import Verdict
from tests.campaign.workplace import Workplace

_TOLD = (0, 1, 3, 5)


def damaged_library(rng: random.Random, place: Workplace) -> Verdict:
    """Damage one to three files below the library's folder."""
    subject = indexed(place, 0.5, rng)
    files = [path for path in sorted(subject.library.rglob("*")) if path.is_file() and path.name != "lock"]
    told = [damage_file(rng, path) for path in rng.sample(files, rng.randint(1, 3))]
    if rng.random() < 0.1:
        shutil.rmtree(rng.choice(sorted(subject.library.glob("*.lance"))))
        told.append("a table's folder deleted")
    if rng.random() < 0.5:
        place.run("search", "two stars", "--no-index", *subject.options, codes=_TOLD)
    if rng.random() < 0.3:
        place.run("index", subject.photos, *subject.options, "--runtime", "torch", codes=_TOLD)
    if rng.random() < 0.3:
        place.run("library", rng.choice(("stats", "list", "prune")), "--library", subject.library, codes=_TOLD)
    place.run("library", "check", *subject.options, codes=_TOLD)
    place.run("library", "repair", *subject.options)
    subject.index()
    subject.judge()
    if not place.verdict.passed:
        place.verdict.add("wrong", "before that: " + "; ".join(told), count=0)
    return place.verdict
