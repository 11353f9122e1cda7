"""A real `smlstm serve` on this machine, and questions whose right answers are known."""

import random
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from tests.campaign.workplace import PATIENCE, Workplace

ARRIVES = 60.0
"""Seconds in which an answer must arrive, being told to come back later included."""
MOST_LINES = 20_000
_WORDS = ("a red circle", "a blue square", "two yellow stars", "a green meadow", "on the beach", "above", "a dog runs")


@dataclass(frozen=True)
class Asked:
    """A question and where it goes."""

    path: str
    body: dict[str, Any]


@dataclass(frozen=True)
class Server:
    """A server that runs."""

    place: Workplace
    process: "subprocess.Popen[bytes]"
    log: Path
    address: str

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self.address.rstrip("/").rpartition(":")[2])

    def ask(self, asked: Asked, client: httpx.Client) -> Any:
        """The answer to a question, however busy the server is; None, and a finding, if none arrives."""
        end, told = time.monotonic() + ARRIVES, "no answer"
        while time.monotonic() < end and self.process.poll() is None:
            try:
                answer = client.post(f"{self.address}api/v1{asked.path}", json=asked.body, timeout=ARRIVES)
            except httpx.HTTPError as error:
                told = f"{type(error).__name__}: {error}"
                time.sleep(0.2)
                continue
            if answer.status_code == 200:
                return answer.json()
            told = f"{answer.status_code}: {answer.text[:300]}"
            if answer.status_code != 503 or "Retry-After" not in answer.headers:
                self.place.verdict.add("wrong", f"a healthy question is answered with {told}", asked.path)
                return None
            time.sleep(min(float(answer.headers["Retry-After"]), 2.0))
        ended = self.process.poll()
        why = f"within {ARRIVES:.0f} s" if ended is None else f"since the server ended with code {ended}"
        self.place.verdict.add("hang", f"no answer {why}, the last: {told}", f"POST {asked.path}")
        return None

    def end(self, twice: bool = False) -> None:
        """Stop it as people do; it must end in good order, at a second signal at once."""
        if self.process.poll() is not None:
            return  # told elsewhere
        self.process.send_signal(signal.SIGTERM)
        patience, codes = PATIENCE / 2, (0,)
        if twice:
            time.sleep(1)
            self.process.send_signal(signal.SIGTERM)
            patience, codes = 15, (0, 1, 130, 143, -signal.SIGTERM)
        try:
            code = self.process.wait(patience)
        except subprocess.TimeoutExpired:
            which = "a second SIGTERM" if twice else "SIGTERM"
            self.place.verdict.add("hang", f"still running {patience:.0f} s after {which}", "smlstm serve")
            return
        if code not in codes:
            told = self.log.read_text(errors="replace")
            self.place.verdict.add("wrong", f"the server ended with code {code} after SIGTERM", "smlstm serve", told)


@contextmanager
def served(place: Workplace, *arguments: object) -> Iterator[Server]:
    """Start a server; at the end its log is judged, and it is killed."""
    with place.running("serve", "--port", 0, "--no-open", *arguments) as (process, log):
        address, end = "", time.monotonic() + PATIENCE
        while not address.endswith("\n") and process.poll() is None and time.monotonic() < end:
            time.sleep(0.05)
            address = log.with_suffix(".out").read_text(errors="replace")
        server = Server(place, process, log, address.strip())
        try:
            if address:
                yield server
            else:
                place.verdict.add("hang", "the server did not start", "smlstm serve", log.read_text(errors="replace"))
                raise NotStarted
        finally:
            told = log.read_text(errors="replace")
            place.verdict.scan(told, "smlstm serve")
            lines = told.count("\n")
            if lines > MOST_LINES:
                place.verdict.add("wrong", f"the server logged {lines} lines", "smlstm serve", told)


class NotStarted(Exception):
    """There is no server to attack; the verdict says why."""


def questions(rng: random.Random, photos: Sequence[str], count: int) -> list[Asked]:
    """Searches, scores, explanations and names, mixed."""
    return [_question(rng, photos) for _ in range(count)]


def _question(rng: random.Random, photos: Sequence[str]) -> Asked:
    sentences = sentence_list(rng, rng.randint(1, 3))
    some = rng.sample(list(photos), min(len(photos), rng.randint(1, 4)))
    match rng.randrange(6):
        case 0:
            return Asked("/score", {"photos": some, "sentences": sentences})
        case 1:
            return Asked("/explain", {"photos": some[:2], "sentences": sentences[:2]})
        case 2:
            return Asked("/annotate", {"photos": some[:2], "k": 5})
        case 3:
            return Asked("/search", {"similar": some[0], "limit": 20})
        case _:
            return Asked("/search", {"sentence": sentences[0], "plus": sentences[1:], "limit": rng.choice((5, 50))})


def sentence_list(rng: random.Random, count: int) -> list[str]:
    """Sentences of words that the models know, no two alike."""
    return list(dict.fromkeys(" ".join(rng.sample(_WORDS, rng.randint(1, 4))) for _ in range(count)))


def photo_ids(server: Server) -> list[str]:
    """The photos of the library, as the API names them."""
    answer = httpx.get(f"{server.address}api/v1/photos", params={"limit": 100}, timeout=ARRIVES)
    return [photo["id"] for photo in answer.json()["photos"]]
