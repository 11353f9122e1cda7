"""What an attack found out."""

import re
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Kind = Literal["lost", "wrong", "traceback", "hang"]
KINDS: tuple[Kind, ...] = ("lost", "wrong", "traceback", "hang")
_CRASH = re.compile(r"Traceback \(most recent call last\)|panicked at|Segmentation fault|Fatal Python error")
TAIL = 1500


@dataclass(frozen=True)
class Finding:
    """One thing that must not be."""

    kind: Kind
    text: str
    command: str = ""
    output: str = ""
    """The end of what the command printed."""
    count: int = 1
    """How many photos, answers or crashes it is about."""


@dataclass
class Verdict:
    """Passed if nothing was found."""

    findings: list[Finding] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        return not self.findings

    def add(self, kind: Kind, text: str, command: str = "", output: str = "", count: int = 1) -> None:
        """Write something down that must not be."""
        self.findings.append(Finding(kind, text, command, output[-TAIL:], count))

    def scan(self, output: str, command: str = "") -> bool:
        """Look for a crash in what was printed; tells whether there is one."""
        crash = _CRASH.search(output)
        if crash is not None:
            self.add("traceback", first_crash(output[crash.start() :]), command, output[crash.start() :][:TAIL])
        return crash is not None

    def to_dict(self) -> dict[str, Any]:
        """As it is written down."""
        return asdict(self)

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> "Verdict":
        """As it was written down."""
        return cls([Finding(**each) for each in content["findings"]])


def first_crash(output: str) -> str:
    """The line that says what went wrong: of a traceback the first that is not indented after it, of a panic itself."""
    lines = output.splitlines()
    if not lines[0].startswith("Traceback"):
        return lines[0][:300]
    return next((line for line in lines[1:] if line and not line.startswith(" ")), lines[0])[:300]
