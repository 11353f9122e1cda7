"""Broken and malicious pictures among healthy ones."""

import json
import random

from tests.campaign.libraries import fresh
from tests.campaign.pictures import broken_picture, scans
from tests.campaign.verdict import Verdict
from tests.campaign.workplace import Workplace


def damaged_images(rng: random.Random, place: Workplace) -> Verdict:
    """Index healthy photos with broken ones in between: all healthy ones are found, none hangs it."""
    subject = fresh(place, 0.3, rng)
    healthy = sorted(path for path in subject.photos.rglob("*") if path.is_file() and path.stat().st_size > 100)
    for number in range(25):
        suffix, data = broken_picture(rng, healthy)
        (rng.choice(healthy).parent / f"harm-{number}{suffix}").write_bytes(data)
    if rng.random() < 0.3:
        (subject.photos / "scans.jpg").write_bytes(scans(7800, 9000)[1])
    done = place.run("index", subject.photos, *subject.options, "--json", "--runtime", "torch")
    if done.code == 0:
        told = json.loads(done.out)
        if told["done"] != told["total"]:
            place.verdict.add("wrong", f"{told['done']} of {told['total']} files are through", done.command, done.err)
    subject.judge()
    return place.verdict


def damaged_images_extract(rng: random.Random, place: Workplace) -> Verdict:
    """Extract and name broken pictures: a sentence for each, and the rest goes on."""
    subject = fresh(place, 0.1, rng)
    healthy = sorted(path for path in subject.photos.rglob("*") if path.is_file() and path.stat().st_size > 100)
    harm = []
    for number in range(12):
        suffix, data = broken_picture(rng, healthy)
        harm.append(subject.photos / f"harm-{number}{suffix}")
        harm[-1].write_bytes(data)
    place.run("extract", subject.photos, "--out", place.folder / "store", "--grid", 2, "--runtime", "torch")
    place.run("data", "check", place.folder / "store")
    for path in rng.sample(harm, 3):
        place.run("score", path, "a star", "--model", subject.model, "--runtime", "torch", codes=(0, 3))
    return place.verdict
