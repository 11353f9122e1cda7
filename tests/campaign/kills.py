"""SIGKILL at random moments: index, prune, repair, serve; what was stored stays, and the same command continues."""

import json
import random

from tests.campaign.libraries import Subject, fresh, indexed
from tests.campaign.verdict import Verdict
from tests.campaign.workplace import Workplace


def kill_index(rng: random.Random, place: Workplace) -> Verdict:
    """Kill `smlstm index` a few times, let it end, and ask for every photo."""
    subject = fresh(place)
    runtime = rng.choice(("torch", "torch", "openvino"))
    for _ in range(rng.randint(1, 4)):
        place.kill(rng, "index", subject.photos, *subject.options, "--runtime", runtime, after=subject.library)
        if rng.random() < 0.3:  # what is there already must be usable at any time; 5: nothing was stored yet
            place.run("search", "two stars", "--no-index", *subject.options, codes=(0, 5))
    subject.index()
    subject.judge()
    return place.verdict


def kill_prune(rng: random.Random, place: Workplace) -> Verdict:
    """Kill `smlstm library prune`: only what no file has may go."""
    subject = indexed(place)
    _delete_some(rng, subject)
    subject.index()
    for _ in range(rng.randint(1, 3)):
        place.kill(rng, "library", "prune", *subject.options, after=subject.library)
    subject.judge()
    place.run("library", "prune", *subject.options)
    subject.judge()
    stats = place.run("library", "stats", "--json", *subject.options)
    unused = json.loads(stats.out)["unused"] if stats.code == 0 else 0
    if unused:
        place.verdict.add("wrong", f"after prune {unused} unused photos are left", stats.command, stats.out)
    return place.verdict


def kill_repair(rng: random.Random, place: Workplace) -> Verdict:
    """Damage stored photos, kill `smlstm library repair`; repair and index bring all back."""
    subject = indexed(place)
    data = sorted(subject.library.glob("photos-*.lance/data/*.lance"))
    chosen = rng.choice(data)
    content = bytearray(chosen.read_bytes())
    start = rng.randrange(len(content) // 2)
    content[start : start + 64] = rng.randbytes(64)
    chosen.write_bytes(content)
    for _ in range(rng.randint(1, 3)):
        place.kill(rng, "library", "repair", *subject.options, after=subject.library)
    place.run("library", "repair", *subject.options)
    subject.index()
    subject.judge()
    return place.verdict


def kill_serve(rng: random.Random, place: Workplace) -> Verdict:
    """Kill `smlstm serve` while it takes photos in; the next one, and index, go on."""
    subject = fresh(place) if rng.random() < 0.7 else indexed(place)
    _delete_some(rng, subject)
    serve = ("serve", subject.photos, "--port", 0, "--no-open", *subject.options, "--runtime", "torch")
    for _ in range(rng.randint(1, 3)):
        if not place.kill(rng, *serve, after=subject.library):
            place.verdict.add("wrong", "the server ended by itself", "smlstm serve")
    subject.index()
    subject.judge()
    return place.verdict


def _delete_some(rng: random.Random, subject: Subject) -> None:
    for path in sorted(path for path in subject.photos.rglob("*") if path.is_file()):
        if rng.random() < 0.25:
            path.unlink()
