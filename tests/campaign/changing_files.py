"""Files that vanish, change, move, become something else and come back while they are indexed."""

import os
import random
import shutil
import time
from pathlib import Path

from tests.campaign import made
from tests.campaign.libraries import Subject, fresh, indexed
from tests.campaign.verdict import Verdict
from tests.campaign.workplace import Workplace, wait_for_changes


def changing_files(rng: random.Random, place: Workplace) -> Verdict:
    """Change the folder while it is indexed; after a calm indexing the library is that of the folder as it is."""
    subject = fresh(place) if rng.random() < 0.6 else indexed(place, 0.4, rng)
    if subject.library.exists():
        shutil.copytree(made.pool(place.base), subject.photos, dirs_exist_ok=True)
    for _ in range(rng.randint(1, 2)):
        unrest = Unrest(rng, subject)
        command = ("index", subject.photos, *subject.options, "--runtime", "torch")
        with place.running(*command) as (process, log):
            wait_for_changes(process, subject.library, rng.randint(1, 6))
            while process.poll() is None and unrest.done < 60:
                unrest.strike()
                time.sleep(rng.random() * 0.03)
            unrest.calm_down()  # before the end: what was away is there again when the next files are read
            place.finish(process, log, codes=(0, 1, 3))
    subject.index()
    subject.judge()
    return place.verdict


class Unrest:
    """Does things to a folder of photos, and can bring back what it took away."""

    def __init__(self, rng: random.Random, subject: Subject) -> None:
        self.rng, self.photos = rng, subject.photos
        self.pool = sorted(path for path in made.pool(subject.place.base).rglob("*") if path.is_file())
        self.away = subject.place.folder / "away"
        self.away.mkdir(exist_ok=True)
        self.hidden: dict[Path, Path] = {}
        self.odd: list[Path] = []
        self.done = 0

    def strike(self) -> None:
        """Do one thing."""
        self.done += 1
        files = [path for path in sorted(self.photos.rglob("*")) if path.is_file() and not path.is_symlink()]
        if not files:
            self.calm_down()
            return
        ways = (
            self.vanish, self.vanish, self.change, self.tear, self.move, self.swap, self.copy, self.hide,
            self.hide_folder, self.become_odd, self.calm_down,
        )  # fmt: skip
        self.rng.choice(ways)(self.rng.choice(files))

    def vanish(self, file: Path) -> None:
        file.unlink()

    def change(self, file: Path) -> None:
        part = file.with_suffix(".part")
        shutil.copy(self.rng.choice(self.pool), part)
        part.replace(file)

    def tear(self, file: Path) -> None:
        """Write other bytes slowly, in place: a reader sees half of them."""
        data = self.rng.choice(self.pool).read_bytes()
        with file.open("wb") as opened:
            opened.write(data[: len(data) // 2])
            opened.flush()
            time.sleep(self.rng.random() * 0.05)
            opened.write(data[len(data) // 2 :])

    def move(self, file: Path) -> None:
        file.rename(file.with_name(f"moved-{self.done}-{file.name}"))

    def swap(self, file: Path) -> None:
        other = self.photos / f"swapped-{self.done}{file.suffix}"
        file.rename(other)
        shutil.copy(self.rng.choice(self.pool), file)

    def copy(self, file: Path) -> None:
        shutil.copy(file, self.photos / f"copied-{self.done}{file.suffix}")

    def hide(self, file: Path) -> None:
        self._take_away(file)

    def hide_folder(self, file: Path) -> None:
        self.calm_down()  # what was taken out of a folder could not be put back while the folder is away
        folder = self.rng.choice([path for path in (*self.photos.iterdir(), self.photos) if path.is_dir()])
        self._take_away(folder)
        time.sleep(self.rng.random() * 0.3)
        self.calm_down()

    def become_odd(self, file: Path) -> None:
        """A pipe, a folder or a link to nowhere in the place of a few photos."""
        kind = self.rng.choice((os.mkfifo, Path.mkdir, lambda path: path.symlink_to("nowhere")))
        some = [path for path in sorted(self.photos.rglob("*.*")) if path.is_file() and not path.is_symlink()]
        for path in self.rng.sample(some, min(12, len(some))):
            self._take_away(path)
            kind(path)
            self.odd.append(path)
        time.sleep(self.rng.random() * 0.2)

    def _take_away(self, path: Path) -> None:
        target = self.away / f"{len(self.hidden)}-{self.done}"
        path.rename(target)
        self.hidden[path] = target

    def calm_down(self, _: Path | None = None) -> None:
        """Bring everything back that was only away."""
        for file in self.odd:
            if file.is_dir() and not file.is_symlink():
                file.rmdir()
            else:
                file.unlink(missing_ok=True)
        self.odd.clear()
        for path, target in reversed(self.hidden.items()):
            path.parent.mkdir(parents=True, exist_ok=True)
            target.rename(path)
        self.hidden.clear()
