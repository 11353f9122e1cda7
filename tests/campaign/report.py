"""The summary: a table of the attacks, the failures with what repeats them, and the same as JSON."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.campaign.verdict import KINDS, Kind, Verdict

_FINDINGS_SHOWN = 4


@dataclass(frozen=True)
class Attempt:
    """An attack that was carried out."""

    attack: str
    seed: int
    seconds: float
    verdict: Verdict

    @property
    def again(self) -> str:
        """The command that repeats it."""
        return f"python -m tests.campaign --only {self.attack} --seed {self.seed} --rounds 1"


def print_report(attempts: Sequence[Attempt], console: Console) -> None:
    """Failures first, so that the table is what stands at the end."""
    for attempt in attempts:
        if not attempt.verdict.passed:
            _print_failure(attempt, console)
    console.print(make_table(attempts))


def make_table(attempts: Sequence[Attempt]) -> Table:
    """A row for each attack, and one for all."""
    table = Table(box=None, pad_edge=False)
    table.add_column("attack", no_wrap=True)
    for column in ("tried", "failed", "lost", "wrong", "tracebacks", "hangs", "seconds"):
        table.add_column(column, justify="right", no_wrap=True)
    for name in dict.fromkeys(attempt.attack for attempt in attempts):
        table.add_row(name, *_counts([each for each in attempts if each.attack == name]))
    table.add_row("all", *_counts(attempts))
    return table


def _counts(attempts: Sequence[Attempt]) -> list[str]:
    failed = sum(not attempt.verdict.passed for attempt in attempts)
    kinds = [sum(_count(attempt, kind) for attempt in attempts) for kind in KINDS]
    return [*map(str, (len(attempts), failed, *kinds)), f"{sum(attempt.seconds for attempt in attempts):.0f}"]


def _count(attempt: Attempt, kind: Kind) -> int:
    return sum(finding.count for finding in attempt.verdict.findings if finding.kind == kind)


def _print_failure(attempt: Attempt, console: Console) -> None:
    console.print(f"FAILED {attempt.again}", markup=False, highlight=False, soft_wrap=True)
    findings = attempt.verdict.findings
    for finding in findings[:_FINDINGS_SHOWN]:
        lines = [f"  {finding.kind}: {finding.text}"]
        lines += [f"    in: {finding.command}"] if finding.command else []
        lines += [f"    | {line}" for line in finding.output.splitlines()[-8:]]
        console.print("\n".join(lines), markup=False, highlight=False, soft_wrap=True)
    if len(findings) > _FINDINGS_SHOWN:
        console.print(f"  and {len(findings) - _FINDINGS_SHOWN} more", highlight=False)


def write_json(attempts: Sequence[Attempt], file: Path) -> None:
    """All of it, for a program."""
    rows = [
        {"attack": each.attack, "seed": each.seed, "seconds": round(each.seconds, 1), "again": each.again}
        | {"passed": each.verdict.passed, **each.verdict.to_dict()}
        for each in attempts
    ]
    file.write_text(json.dumps({"attempts": rows}, indent=2) + "\n", encoding="utf-8")
