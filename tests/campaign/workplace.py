"""Where an attack works: a folder of its own, and commands that always end."""

import os
import random
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.campaign.verdict import Verdict
from tests.command_line import smlstm

PATIENCE = 120.0
"""Seconds after which a command hangs; each takes a few."""
DOCUMENTED = (0, 1, 2, 3, 4, 5)
_MAIN = "from smlstm.cli import main; main()"


@dataclass(frozen=True)
class Ended:
    """A command that has ended."""

    command: str
    code: int
    out: str
    err: str


@dataclass
class Workplace:
    """A folder, the things all attacks share (`base`, see `made.py`), and the verdict so far."""

    folder: Path
    base: Path
    verdict: Verdict = field(default_factory=Verdict)
    _files: int = 0

    def run(self, *arguments: object, codes: Sequence[int] = (0,), patience: float = PATIENCE) -> Ended:
        """Run a command in a process of its own to its end, and judge its code and what it printed."""
        process, log = self._start(arguments)
        try:
            code = process.wait(patience)
        except subprocess.TimeoutExpired:
            self._give_up(process, log, f"still running after {patience:.0f} s")
            return self._ended(arguments, -9, log)
        ended = self._ended(arguments, code, log)
        self._judge(ended, codes)
        return ended

    def quick(self, *arguments: object, codes: Sequence[int] = DOCUMENTED) -> Ended:
        """Run a command in this process, many times as fast; what it raises is what would end in a traceback."""
        command = _shown(arguments)
        print(command, file=sys.stderr, flush=True)  # so that it is known which one hung
        try:
            done = smlstm(*arguments)
        except BaseException as error:  # a panic of Rust is no Exception
            if isinstance(error, KeyboardInterrupt):
                raise
            told = "".join(traceback.format_exception(error))
            self.verdict.add("traceback", f"{type(error).__name__}: {error}"[:300], command, told)
            return Ended(command, 1, "", told)
        ended = Ended(command, done.returncode, done.stdout, done.stderr)
        self._judge(ended, codes)
        return ended

    def kill(self, rng: random.Random, *arguments: object, after: Path, codes: Sequence[int] = (0,)) -> bool:
        """Start a command and SIGKILL it at a random moment; tells whether it was still running then.

        Either some time after its start, or soon after some number of changes below the folder `after`.
        """
        process, log = self._start(arguments)
        delay = pause(rng, 6.0)
        if rng.random() < 0.8:
            delay = pause(rng, 0.3)
            wait_for_changes(process, after, rng.randint(1, 12))
        try:
            code = process.wait(delay)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            self.verdict.scan(log.read_text(errors="replace"), _shown(arguments))
            return True
        self._judge(self._ended(arguments, code, log), codes)
        return False

    @contextmanager
    def running(self, *arguments: object) -> Iterator[tuple["subprocess.Popen[bytes]", Path]]:
        """A command that goes on meanwhile: its process and the file of what it prints; killed at the end."""
        process, log = self._start(arguments)
        try:
            yield process, log
        finally:
            process.kill()
            process.wait()

    def finish(self, process: "subprocess.Popen[bytes]", log: Path, codes: Sequence[int] = (0,)) -> Ended:
        """Wait for a command that was started with `running`, and judge its code."""
        arguments = process.args[3:]  # type: ignore[index]
        try:
            code = process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._give_up(process, log, f"still running after {PATIENCE:.0f} s")
            code = -9
        ended = self._ended(arguments, code, log)
        if code != -9:
            self._judge(ended, codes)
        return ended

    def _start(self, arguments: Sequence[object]) -> "tuple[subprocess.Popen[bytes], Path]":
        self._files += 1
        log = self.folder / f"command-{self._files}.err"
        command = [sys.executable, "-c", _MAIN, *map(str, arguments)]
        print(_shown(arguments), file=sys.stderr, flush=True)
        with log.open("wb") as err, log.with_suffix(".out").open("wb") as out:
            return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err), log

    def _ended(self, arguments: Sequence[object], code: int, log: Path) -> Ended:
        texts = (path.read_text(errors="replace") for path in (log.with_suffix(".out"), log))
        return Ended(_shown(arguments), code, *texts)

    def _give_up(self, process: "subprocess.Popen[bytes]", log: Path, why: str) -> None:
        process.kill()
        process.wait()
        self.verdict.add("hang", why, _shown(process.args[3:]), log.read_text(errors="replace"))  # type: ignore[index]

    def _judge(self, ended: Ended, codes: Sequence[int]) -> None:
        crashed = self.verdict.scan(ended.out + ended.err, ended.command)
        if crashed:
            return
        if ended.code not in codes:
            wanted = " or ".join(map(str, codes))
            self.verdict.add("wrong", f"ended with code {ended.code}, not {wanted}", ended.command, ended.err)
        elif ended.code not in (0, 5) and not ended.err.strip():
            self.verdict.add("wrong", f"ended with code {ended.code} without a word", ended.command, ended.out)


def wait_for_changes(process: "subprocess.Popen[bytes]", folder: Path, changes: int) -> None:
    """Wait until a process has changed a folder so many times, or ended."""
    give_up = time.monotonic() + 10  # a server, or a command that has little to do, may never change it so often
    before = fingerprint(folder)
    while changes and process.poll() is None and time.monotonic() < give_up:
        time.sleep(0.003)
        now = fingerprint(folder)
        changes -= now != before
        before = now


def fingerprint(folder: Path) -> int:
    """A number that changes when a file below a folder comes, goes or grows."""
    found = []
    for root, _, names in os.walk(folder):
        for name in names:
            try:
                found.append((root, name, os.stat(os.path.join(root, name)).st_size))  # noqa: PTH116, PTH118 - quick
            except OSError:
                continue
    return hash(tuple(sorted(found)))


def pause(rng: random.Random, most: float) -> float:
    """A moment to strike: early ones are as likely as late ones by orders of magnitude."""
    return most * rng.choice((rng.random(), rng.random() ** 3))


def _shown(arguments: Sequence[object]) -> str:
    return " ".join(["smlstm", *map(str, arguments)])
