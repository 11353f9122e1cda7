"""What a search gives back."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Match:
    """A photo that was found."""

    path: Path
    probability: float | None
    """That the photo matches what was asked for; None for photos that were only asked to be similar."""
    similarity: float
    """The cosine by which it came onto the shortlist."""
    scores: tuple[float, ...] = ()
    """The pair's score for each sentence."""
    width: int | None = None
    height: int | None = None
    taken: datetime | None = None
    copies: tuple[Path, ...] = ()
    """Other files with the same content."""
    content: int = 0
    """A number for the photo's bytes, by which the library knows it."""

    def to_dict(self) -> dict[str, Any]:
        """As `--json` prints it."""
        return {
            "path": str(self.path),
            "probability": self.probability,
            "similarity": self.similarity,
            "scores": list(self.scores),
            "width": self.width,
            "height": self.height,
            "taken": self.taken.isoformat() if self.taken else None,
            "copies": [str(path) for path in self.copies],
        }


@dataclass(frozen=True)
class Found:
    """Photos, the best first."""

    matches: tuple[Match, ...]
    searched: int
    """How many photos the question was put to."""
    unknown: tuple[str, ...] = ()
    """Words of the question that the model has not learned."""
    read_as: Mapping[str, str] = field(default_factory=dict)
    """Misspelt words of the question, and what they were read as."""
    calibrated: bool = True

    def __iter__(self) -> Iterator[Match]:
        return iter(self.matches)

    def __len__(self) -> int:
        return len(self.matches)

    def __getitem__(self, place: int) -> Match:
        return self.matches[place]
