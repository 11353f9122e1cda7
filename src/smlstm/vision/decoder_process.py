"""Decoding in a process of its own, for photos of which nobody can tell beforehand how much work they are.

A decoder written in C cannot be stopped from within its process, so these run in others, which may use so much
processor time and memory a photo and no more. They are started when they are first needed, kept, and end with the
process that started them, whose end is the end of their input. A request and an answer are a line of JSON and bytes.
"""

import atexit
import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, BinaryIO

from PIL import Image

from smlstm.vision.pixels import decode_here
from smlstm.vision.unreadable import UnreachablePhoto, UnreadablePhoto

SECONDS = 30
"""Of processor time, the most that a photo may take."""
_PATIENCE = 10 * SECONDS  # by the clock: many may be waiting for the same processor
_AT_ONCE = 2
_SPARE_BYTES, _BYTES_PER_PIXEL = 512 * 2**20, 24


def decode_elsewhere(kind: str, data: bytes, name: str, at_least: int | None, limit_megapixels: float) -> Image.Image:
    """Decode a photo in another process, in bounded time and memory; as `decode_here` otherwise."""
    request = {"kind": kind, "name": name, "at_least": at_least, "limit": limit_megapixels, "bytes": len(data)}
    request |= {"seconds": SECONDS, "memory": _SPARE_BYTES + int(limit_megapixels * 1_000_000) * _BYTES_PER_PIXEL}
    with _places:
        decoder = _take(name)
        try:
            answer, pixels = decoder.ask(request, data)
        except BaseException:
            decoder.end()
            raise
        if answer is None:
            raise decoder.last_words(name)
        _idle.append(decoder)
    if "reason" in answer:
        raise UnreadablePhoto(name, answer["reason"])
    return Image.frombytes("RGB", answer["size"], pixels)


class _Decoder:
    """A process that decodes one photo at a time."""

    def __init__(self) -> None:
        self._late = False
        self.process = subprocess.Popen(
            [sys.executable, "-c", f"from {__name__} import serve; serve()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            start_new_session=True,  # a Ctrl-C is for the one who started it
        )

    def ask(self, request: dict[str, Any], data: bytes) -> tuple[dict[str, Any] | None, bytes]:
        """Send a photo and wait for its pixels; None if the process ended instead."""
        timer = threading.Timer(_PATIENCE, self._give_up)
        timer.daemon = True
        timer.start()
        try:
            assert self.process.stdin is not None and self.process.stdout is not None
            with contextlib.suppress(BrokenPipeError):  # then there is no answer either
                _send(self.process.stdin, request, data)
            return _receive(self.process.stdout)
        finally:
            timer.cancel()

    def _give_up(self) -> None:
        self._late = True
        self.process.kill()

    def last_words(self, name: str) -> UnreadablePhoto:
        """Why the process ended: by its own limit, by its photo, or by someone else."""
        self.end()
        code = self.process.returncode
        if code == -getattr(signal, "SIGXCPU", 0):
            return UnreadablePhoto(name, f"decoding it takes more than {SECONDS} s of processor time")
        if code in (-getattr(signal, "SIGKILL", 0), -signal.SIGTERM) or code >= 0:
            late = f"it was not decoded within {_PATIENCE} s" if self._late else f"its decoder was ended (code {code})"
            return UnreachablePhoto(name, late)
        return UnreadablePhoto(name, f"it crashes its decoder ({signal.Signals(-code).name})")

    def end(self) -> None:
        """End the process: by the end of its input, or else by force."""
        for pipe in (self.process.stdin, self.process.stdout):
            with contextlib.suppress(OSError):
                assert pipe is not None
                pipe.close()
        try:
            self.process.wait(1)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


_places = threading.BoundedSemaphore(_AT_ONCE)
_idle: list[_Decoder] = []


def _take(name: str) -> _Decoder:
    """A process that waits for work, or a new one."""
    while True:
        try:
            decoder = _idle.pop()
        except IndexError:
            break
        if decoder.process.poll() is None:
            return decoder
        decoder.end()
    try:
        return _Decoder()
    except OSError as error:
        raise UnreachablePhoto(name, f"no process can be started to decode it ({error.strerror or error})") from None


@atexit.register
def _end_all() -> None:
    while _idle:
        _idle.pop().end()


def _send(pipe: Any, about: dict[str, Any], data: bytes) -> None:
    pipe.write(json.dumps(about).encode() + b"\n")
    pipe.write(data)
    pipe.flush()


def _receive(pipe: Any) -> tuple[dict[str, Any] | None, bytes]:
    line = pipe.readline()
    if not line.endswith(b"\n"):
        return None, b""
    about = json.loads(line)
    data = pipe.read(about["bytes"])
    return (about, data) if len(data) == about["bytes"] else (None, b"")


def serve() -> None:
    """Be such a process: answer until the input ends."""
    asked, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 0)
    os.dup2(nowhere, 1)  # whatever a decoder prints is no answer
    requests: queue.SimpleQueue[tuple[dict[str, Any], bytes]] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(asked, requests), daemon=True).start()
    while True:
        _send(answers, *_answer(*requests.get()))


def _listen(asked: BinaryIO, requests: "queue.SimpleQueue[tuple[dict[str, Any], bytes]]") -> None:
    """Take requests; a thread of its own notices the end of who asked, in the midst of decoding too."""
    while True:
        request, data = _receive(asked)
        if request is None:
            os._exit(0)
        requests.put((request, data))


def _answer(request: dict[str, Any], data: bytes) -> tuple[dict[str, Any], bytes]:
    _bound(request["seconds"], request["memory"])
    try:
        photo = decode_here(request["kind"], data, request["name"], request["at_least"], request["limit"])
        pixels = photo.convert("RGB").tobytes()
    except UnreadablePhoto as refused:
        return {"reason": refused.reason, "bytes": 0}, b""
    except MemoryError:
        return {"reason": "decoding it takes more memory than a photo of its size needs", "bytes": 0}, b""
    return {"size": photo.size, "bytes": len(pixels)}, pixels


def _bound(seconds: int, memory: int) -> None:
    """Limit what the next photo may use, where the system can."""
    try:
        import resource  # noqa: PLC0415 - not on Windows, where the clock alone decides
    except ImportError:
        return
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    _limit(resource, resource.RLIMIT_CPU, int(time.process_time()) + seconds + 1)
    with contextlib.suppress(OSError, StopIteration):  # only Linux tells what is used, and heeds the limit
        status = Path("/proc/self/status").read_text().splitlines()
        used = next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmData:"))
        _limit(resource, resource.RLIMIT_DATA, used + memory)


def _limit(resource: Any, kind: int, value: int) -> None:
    hard = resource.getrlimit(kind)[1]
    resource.setrlimit(kind, (value if hard == resource.RLIM_INFINITY else min(value, hard), hard))
