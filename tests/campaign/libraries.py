"""A library of the pool's photos for an attack, and the judgement of what is left of it."""

import random
import shutil
from dataclasses import dataclass
from pathlib import Path

from smlstm.errors import SmlstmError
from smlstm.search import Library
from tests.campaign import made
from tests.campaign.answers import Answer, ask, compare
from tests.campaign.workplace import Workplace


@dataclass(frozen=True)
class Subject:
    """A folder of photos and where its library lies, or will lie."""

    place: Workplace
    photos: Path
    library: Path
    model: Path

    @property
    def options(self) -> tuple[object, ...]:
        """What every command must be told."""
        return ("--library", self.library, "--model", self.model)

    def opened(self) -> Library:
        """The library in this process."""
        return Library(self.library, model=self.model, runtime="torch")

    def index(self) -> None:
        """Bring the library in step, undisturbed and by the command line."""
        self.place.run("index", self.photos, *self.options, "--runtime", "torch")

    def judge(self) -> None:
        """The library must be whole, and answer rightly about every photo that its folder has."""
        checked = self.place.run("library", "check", *self.options, codes=(0, 3))
        if checked.code == 3:
            self.place.verdict.add("wrong", "the library is not whole", checked.command, checked.out + checked.err)
        self.judge_answers()

    def judge_answers(self) -> None:
        """Every photo of the folder is found with its right answer, and nothing else."""
        try:
            found = ask(self.opened())
        except (SmlstmError, ValueError, OSError, RuntimeError) as error:
            self.place.verdict.add("wrong", f"the library cannot be asked: {type(error).__name__}: {error}"[:500])
            return
        expected, unjudged = self.expected()
        compare(expected, {path: answer for path, answer in found.items() if path not in unjudged}, self.place.verdict)

    def expected(self) -> tuple[dict[str, Answer | None], set[str]]:
        """The right answers for the folder as it is; and files of which nobody knows whether they are photos."""
        oracle, known, unjudged = made.oracle(self.place.base), dict[str, Answer | None](), set[str]()
        for path in self.photos.rglob("*"):
            if path.is_file():
                content = made.digest(path)
                if content in oracle:
                    known[str(path)] = oracle[content]
                else:
                    unjudged.add(str(path))
        return known, unjudged


def fresh(place: Workplace, share: float = 1.0, rng: random.Random | None = None) -> Subject:
    """A copy of the pool, or of a share of it, and no library yet."""
    photos = place.folder / "photos"
    shutil.copytree(made.pool(place.base), photos)
    if rng is not None:
        for path in sorted(path for path in photos.rglob("*") if path.is_file()):
            if rng.random() > share:
                path.unlink()
    return Subject(place, photos.resolve(), place.folder / "library", made.model(place.base))


def indexed(place: Workplace, share: float = 1.0, rng: random.Random | None = None) -> Subject:
    """The same with a library that was indexed undisturbed, in several commits."""
    subject = fresh(place, share, rng)
    subject.opened().index(subject.photos)
    return subject
