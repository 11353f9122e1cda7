"""What a library answers about all of its photos, and whether that is right."""

from pathlib import Path
from typing import NamedTuple

from smlstm.search import Library
from tests.campaign.verdict import Verdict

SENTENCES = ("a red circle above a blue square on a green meadow", "two yellow stars")
_ALL = 100_000
_NEAR = 1e-3  # runtimes of the CNN differ in their last bits, which packing may round to another byte


class Answer(NamedTuple):
    """What is answered about a photo."""

    probabilities: tuple[float, ...]
    width: int | None
    height: int | None


def ask(library: Library) -> dict[str, Answer]:
    """What a library answers about every photo, by path; copies count as photos."""
    found: dict[str, Answer] = {}
    for sentence in SENTENCES:
        for match in library.search(sentence, k=_ALL, shortlist=_ALL):
            assert match.probability is not None
            for path in map(str, (match.path, *match.copies)):
                before = found[path].probabilities if path in found else ()
                found[path] = Answer((*before, match.probability), match.width, match.height)
    return found


def compare(expected: dict[str, Answer | None], found: dict[str, Answer], verdict: Verdict) -> None:
    """Judge answers: a photo that is expected and not found is lost; any other difference is wrong.

    Expected None: a file that is no photo, which must not be found. A found path that nobody expects is wrong, too.
    """
    lost = [path for path, answer in expected.items() if answer is not None and path not in found]
    if lost:
        verdict.add("lost", f"{len(lost)} of {len(expected)} photos are not found: {_some(lost)}", count=len(lost))
    strange = [path for path in found if expected.get(path) is None]
    if strange:
        verdict.add("wrong", f"{len(strange)} are found that are not there: {_some(strange)}", count=len(strange))
    for path, answer in expected.items():
        if answer is not None and path in found and not _same(answer, found[path]):
            verdict.add("wrong", f"{path} is answered with {found[path]}, not {answer}")


def _same(one: Answer, other: Answer) -> bool:
    near = len(one.probabilities) == len(other.probabilities) and all(
        abs(a - b) < _NEAR for a, b in zip(one.probabilities, other.probabilities, strict=True)
    )
    return near and one[1:] == other[1:]


def _some(paths: list[str]) -> str:
    return ", ".join(Path(path).name for path in sorted(paths)[:5])
