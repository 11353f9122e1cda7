"""A disk that is full: the command says so, and goes on when there is space again."""

import os
import random
import resource
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from tests.campaign import made
from tests.campaign.kill_work import compare_runs, compare_stores, reference_run, reference_store
from tests.campaign.libraries import fresh
from tests.campaign.verdict import Verdict
from tests.campaign.workplace import Ended, Workplace

_SIZE = 64 << 20
_FAILED = (0, 1, 3)  # 0: the space sufficed


def full_disk_index(rng: random.Random, place: Workplace) -> Verdict:
    """Fill the disk under a library while it grows."""
    subject = replace(fresh(place), library=place.folder / "disk" / "library")
    command = ("index", subject.photos, *subject.options, "--runtime", "torch")
    with disk(place) as fill:
        for _ in range(rng.randint(1, 2)):
            with fill(rng.choice((0, rng.randrange(200_000), rng.randrange(2_000_000)))):
                _told(place, place.run(*command, codes=_FAILED))
                place.run("library", "check", *subject.options, codes=(0, 3))
        subject.index()
        subject.judge()
    return place.verdict


def full_disk_prune(rng: random.Random, place: Workplace) -> Verdict:
    """Prune, which rewrites, without space for it."""
    subject = replace(fresh(place), library=place.folder / "disk" / "library")
    with disk(place) as fill:
        subject.opened().index(subject.photos)
        for path in sorted(path for path in subject.photos.rglob("*") if path.is_file()):
            if rng.random() < 0.3:
                path.unlink()
        with fill(rng.choice((0, rng.randrange(100_000), rng.randrange(500_000)))):
            for command in (
                ("index", subject.photos, "--runtime", "torch"),
                ("library", "prune"),
                ("library", "repair"),
            ):
                _told(place, place.run(*command, *subject.options, codes=_FAILED))
        subject.index()
        subject.judge()
    return place.verdict


def full_disk_work(rng: random.Random, place: Workplace) -> Verdict:
    """Extract or train onto a full disk, then again with space."""
    target = place.folder / "disk" / "out"
    if rng.random() < 0.5:
        reference, most = reference_store(place), 2_000_000
        command: tuple[object, ...] = ("extract", made.pool(place.base), "--grid", 2, "--runtime", "torch", "--out")
    else:
        reference, most = reference_run(place.base), 1_000_000
        command = ("train", made.recipe(place.base), "--out")
    with disk(place) as fill:
        for _ in range(rng.randint(1, 2)):
            with fill(rng.choice((0, rng.randrange(most // 10), rng.randrange(most)))):
                _told(place, place.run(*command, target, codes=_FAILED))
        place.run(*command, target)
        (compare_stores if command[0] == "extract" else compare_runs)(reference, target, place.verdict)
    return place.verdict


def _told(place: Workplace, ended: Ended) -> None:
    """Who fails for want of space says so."""
    words = ("space", "No space", "too large", "os error 28", "os error 27")
    if ended.code in (1, 3) and not any(word in ended.err for word in words):
        place.verdict.add("wrong", "does not tell that the disk is full", ended.command, ended.err)


@contextmanager
def disk(place: Workplace) -> Iterator["_Fill"]:
    """A small disk of its own where we may mount one; else files that cannot grow, which looks much the same."""
    folder = place.folder / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={_SIZE}", "tmpfs", str(folder)]
    mounted = os.geteuid() == 0 and subprocess.run(mount, check=False, capture_output=True).returncode == 0
    try:
        yield _Fill(folder if mounted else None)
    finally:
        if mounted:
            subprocess.run(["umount", "--lazy", str(folder)], check=False)


class _Fill:
    def __init__(self, folder: Path | None) -> None:
        self.folder = folder

    @contextmanager
    def __call__(self, left: int) -> Iterator[None]:
        """Leave only so many bytes free, for a while."""
        if self.folder is None:
            before = resource.getrlimit(resource.RLIMIT_FSIZE)
            resource.setrlimit(resource.RLIMIT_FSIZE, (max(left, 4096), before[1]))
            try:
                yield
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, before)
            return
        ballast = self.folder / "ballast"
        status = os.statvfs(self.folder)
        size = max(0, status.f_bavail * status.f_frsize - left)
        with ballast.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, max(size, 1))
        try:
            yield
        finally:
            ballast.unlink()
