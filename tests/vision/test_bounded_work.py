"""However much work a photo asks for, it gets so much and no more."""

import io
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from smlstm.vision import UnreachablePhoto, UnreadablePhoto, decode_photo, decoder_process
from smlstm.vision.decoder_process import _Decoder, decode_elsewhere
from smlstm.vision.scans import count_scans


def encoded(image: Image.Image, form: str, **options) -> bytes:
    file = io.BytesIO()
    image.save(file, form, **options)
    return file.getvalue()


def with_scans(image: Image.Image, more: int) -> bytes:
    """A progressive JPEG whose last scan comes so many times more."""
    data = encoded(image, "JPEG", progressive=True)
    last = data.rindex(b"\xff\xda")
    return data[:last] + data[last:-2] * more + data[last:]


def test_scans_are_counted_and_what_stands_beside_them_is_not(scene):
    plain, progressive = (encoded(scene, "JPEG", progressive=each) for each in (False, True))
    assert count_scans(plain) == 1 and 5 < count_scans(progressive) < 20
    assert count_scans(with_scans(scene, 7)) == count_scans(progressive) + 7
    hidden = encoded(scene, "JPEG", exif=b"Exif\0\0" + b"\xff\xda\0\0" * 500) + b"\xff\xda\0\0" * 500
    assert count_scans(hidden) == 1  # a preview in the header, a film behind the photo


def test_a_jpeg_of_thousands_of_scans_is_refused_before_a_pixel_is_decoded(scene, monkeypatch):
    monkeypatch.setattr("smlstm.vision.decode.decode_here", lambda *_: pytest.fail("it was decoded"))
    monkeypatch.setattr("smlstm.vision.decode.decode_elsewhere", lambda *_: pytest.fail("it was decoded"))
    with pytest.raises(UnreadablePhoto, match="more than 100 scans") as caught:
        decode_photo(with_scans(scene, 3000))
    assert not isinstance(caught.value, UnreachablePhoto)


def test_a_photo_of_some_more_scans_than_usual_is_read(scene):
    found, expected = (np.asarray(decode_photo(with_scans(scene, more)), float) for more in (20, 0))
    assert np.abs(found - expected).mean() < 20


@pytest.mark.parametrize(("form", "options"), [("TIFF", {}), ("AVIF", {}), ("BMP", {}), ("JPEG", {})])
def test_another_process_decodes_as_this_one_does(form, options, scene):
    data = encoded(scene, form, **options)
    elsewhere = decode_elsewhere(form, data, "photo", 16, 100.0)
    assert np.array_equal(np.asarray(elsewhere), np.asarray(decode_photo(data, at_least=16)))


def test_what_is_refused_elsewhere_is_refused_in_the_same_words():
    cut = encoded(Image.effect_noise((200, 150), 60), "TIFF")[:9000]
    with pytest.raises(UnreadablePhoto, match=r"^cannot read photo a.tif: the TIFF data is damaged or incomplete"):
        decode_photo(cut, name="a.tif")


def test_work_that_does_not_end_is_ended_and_the_next_photo_is_read(scene, monkeypatch):
    monkeypatch.setattr(decoder_process, "SECONDS", 1)
    endless = with_scans(Image.new("RGB", (3000, 3000), "red"), 2000)
    assert len(endless) < 1_000_000
    with pytest.raises(UnreadablePhoto, match="takes more than 1 s of processor time") as caught:
        decode_elsewhere("JPEG", endless, "endless.jpg", None, 100.0)
    assert not isinstance(caught.value, UnreachablePhoto)
    assert decode_elsewhere("TIFF", encoded(scene, "TIFF"), "a.tif", None, 100.0).size == scene.size


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only Linux bounds the memory of a process")
def test_a_photo_that_takes_more_memory_than_it_may_is_refused(scene, monkeypatch):
    data = encoded(Image.new("RGB", (6000, 5000)), "TIFF", compression="tiff_deflate")
    assert decode_elsewhere("TIFF", data, "large.tif", None, 100.0).size == (6000, 5000)
    monkeypatch.setattr(decoder_process, "_SPARE_BYTES", 16 * 2**20)
    monkeypatch.setattr(decoder_process, "_BYTES_PER_PIXEL", 0)
    with pytest.raises(UnreadablePhoto, match="memory"):
        decode_elsewhere("TIFF", data, "large.tif", None, 100.0)
    assert decode_elsewhere("TIFF", encoded(scene, "TIFF"), "a.tif", None, 100.0).size == scene.size


@pytest.mark.parametrize(("way", "at_fault"), [(signal.SIGSEGV, True), (signal.SIGABRT, True), (signal.SIGKILL, False)])
def test_a_crash_is_the_photos_fault_and_being_killed_is_not(way, at_fault, scene, monkeypatch):
    ask = _Decoder.ask

    def dying(self, *asked):
        self.process.send_signal(way)
        self.process.wait()
        return ask(self, *asked)

    monkeypatch.setattr(_Decoder, "ask", dying)
    with pytest.raises(UnreadablePhoto) as caught:
        decode_elsewhere("TIFF", encoded(scene, "TIFF"), "a.tif", None, 100.0)
    assert isinstance(caught.value, UnreachablePhoto) is not at_fault
    monkeypatch.undo()
    assert decode_elsewhere("TIFF", encoded(scene, "TIFF"), "a.tif", None, 100.0).size == scene.size


DIE = """
import os, signal, sys
from pathlib import Path
from smlstm.vision import decode_photo
from smlstm.vision.decoder_process import _idle
decode_photo(Path(sys.argv[1]).read_bytes())
print(_idle[0].process.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="processes are looked for in /proc")
def test_a_decoder_ends_with_the_process_that_started_it(scene, tmp_path):
    (tmp_path / "a.tif").write_bytes(encoded(scene, "TIFF"))
    command = [sys.executable, "-c", DIE, str(tmp_path / "a.tif")]
    ended = subprocess.run(command, check=False, capture_output=True, text=True)
    assert ended.returncode == -signal.SIGKILL
    status = Path("/proc") / ended.stdout.strip() / "status"
    give_up = time.monotonic() + 60
    while status.exists() and "zombie" not in status.read_text():
        assert time.monotonic() < give_up
        time.sleep(0.05)


def test_decoders_wait_for_work_and_are_few(scene):
    data = encoded(scene, "TIFF")
    pids = set()
    for _ in range(4):
        decode_photo(data)
        pids |= {each.process.pid for each in decoder_process._idle}
    assert 1 <= len(pids) <= 2 and os.getpid() not in pids
