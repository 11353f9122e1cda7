"""Run the campaign: attacks in turns until the time is up, then a table."""

import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

os.environ.update(
    {"SMLSTM_PRECISION": "float32", "OMP_WAIT_POLICY": "PASSIVE", "KMP_BLOCKTIME": "0", "OMP_NUM_THREADS": "1"}
)
for _name in ("SMLSTM_LIBRARY", "SMLSTM_MODEL", "SMLSTM_TOKEN"):  # nothing of the user's may be touched
    os.environ.pop(_name, None)

from rich.console import Console  # noqa: E402 - the environment comes first

from tests.campaign.attacks import ATTACKS, load  # noqa: E402
from tests.campaign.report import Attempt, print_report, write_json  # noqa: E402
from tests.campaign.verdict import Verdict  # noqa: E402
from tests.campaign.workplace import Workplace  # noqa: E402

ROOT = Path(__file__).parents[2]
LONGEST = 600.0
"""Seconds that one attempt may take; each takes seconds to a minute, and its commands have limits of their own."""


def main() -> int:
    """Carry the campaign out; 1 if anything failed."""
    asked = _arguments()
    if asked.one:
        return _one(asked)
    unknown = sorted(set(asked.only or ()) - set(ATTACKS))
    if unknown:
        print(f"there is no attack {', '.join(unknown)}; there are {', '.join(ATTACKS)}", file=sys.stderr)
        return 2
    names = asked.only or list(ATTACKS)
    folder = Path(asked.keep or tempfile.mkdtemp(prefix="smlstm-campaign-")).resolve()
    try:
        attempts = _attack(names, folder, asked)
    finally:
        if not asked.keep:
            shutil.rmtree(folder, ignore_errors=True)
    print_report(attempts, Console(width=None if sys.stdout.isatty() else 160))
    if asked.json:
        write_json(attempts, asked.json)
    return int(any(not attempt.verdict.passed for attempt in attempts))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.campaign", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10, help="for how long new attempts are begun")
    parser.add_argument("--seed", type=int, default=1, help="the first turn's; each turn has the next one")
    parser.add_argument("--rounds", type=int, default=10**9, help="at most so many turns")
    parser.add_argument("--only", nargs="+", metavar="NAME", help=f"only these attacks: {', '.join(ATTACKS)}")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="work here, and keep what failed attempts left")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write everything as JSON")
    parser.add_argument("--one", help=argparse.SUPPRESS)  # an attempt's own process
    return parser.parse_args()


def _attack(names: list[str], folder: Path, asked: argparse.Namespace) -> list[Attempt]:
    end = time.monotonic() + asked.minutes * 60
    attempts: list[Attempt] = []
    try:
        for turn in range(asked.rounds):
            for name in names:
                if time.monotonic() > end:
                    return attempts
                attempt = _attempt(name, asked.seed + turn, folder)
                attempts.append(attempt)
                told = "passed" if attempt.verdict.passed else f"FAILED: {attempt.verdict.findings[0].text[:150]}"
                failed = sum(not each.verdict.passed for each in attempts)
                line = f"{name} seed {attempt.seed}: {told} ({attempt.seconds:.0f} s)"
                print(f"[{len(attempts)} tried, {failed} failed] {line}", file=sys.stderr, flush=True)
    except KeyboardInterrupt:
        print("interrupted: this is what was tried until now", file=sys.stderr)
    return attempts


def _attempt(name: str, seed: int, folder: Path) -> Attempt:
    """One attack in a process of its own, in a process group that is killed at the end, come what may."""
    start, work = time.monotonic(), folder / f"{name}-{seed}"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    command = [sys.executable, "-m", "tests.campaign", "--one", name, "--seed", str(seed), "--keep", str(folder)]
    log = work / "attempt.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )
        try:
            process.wait(LONGEST)
        except subprocess.TimeoutExpired:
            pass
        finally:
            _kill_group(process)
    verdict = _verdict(work, process.returncode, log.read_text(errors="replace"))
    _unmount(work)
    if verdict.passed:
        shutil.rmtree(work, ignore_errors=True)
    return Attempt(name, seed, time.monotonic() - start, verdict)


def _kill_group(process: "subprocess.Popen[bytes]") -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _verdict(work: Path, code: int, log: str) -> Verdict:
    file = work / "verdict.json"
    verdict = Verdict.from_dict(json.loads(file.read_text())) if file.exists() else Verdict()
    if not file.exists() and code == -signal.SIGKILL:
        verdict.add("hang", f"the attempt was still running after {LONGEST:.0f} s", output=log)
    elif not file.exists() and not verdict.scan(log):
        verdict.add("traceback", f"the attempt's process ended with code {code}", output=log)
    elif file.exists():
        verdict.scan(log)  # such as a panic in a thread of a library, which only prints
    return verdict


def _unmount(work: Path) -> None:
    disk = work / "disk"
    if disk.is_mount():
        subprocess.run(["umount", "--lazy", str(disk)], check=False)


def _one(asked: argparse.Namespace) -> int:
    work = asked.keep / f"{asked.one}-{asked.seed}"
    place = Workplace(work, asked.keep / "base")
    place.base.mkdir(exist_ok=True)
    verdict = load(asked.one)(random.Random(f"{asked.one}-{asked.seed}"), place)
    part = work / "verdict.part"
    part.write_text(json.dumps(verdict.to_dict()))
    part.rename(work / "verdict.json")
    return 0


if __name__ == "__main__":
    sys.exit(main())
