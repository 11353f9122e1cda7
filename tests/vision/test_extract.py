import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from smlstm.errors import ConfigurationError
from smlstm.vision import read_photo
from smlstm.vision.backbones import load_backbone
from smlstm.vision.extract import Extractor
from smlstm.vision.sources import is_source, source_of


@pytest.fixture(scope="module")
def backbone():
    return load_backbone("efficientnet-lite0", grid=2)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("photos")
    rng = np.random.default_rng(0)
    for index in range(23):
        pixels = rng.integers(0, 256, (40 + index, 60, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"{index:03}.jpg")
    return folder


def pairs(folder: Path) -> list[tuple[str, Path]]:
    return [(path.stem, path) for path in sorted(folder.iterdir())]


@pytest.mark.parametrize(("batch_size", "workers"), [(1, 1), (4, 2), (5, 3), (64, 2)])
def test_features_come_in_order_and_are_each_photos_own(backbone, folder, batch_size, workers):
    batches = list(Extractor(backbone, batch_size=batch_size, workers=workers).extract(pairs(folder)))
    assert [key for batch in batches for key in batch.keys] == [f"{index:03}" for index in range(23)]
    assert all(len(batch.keys) <= batch_size for batch in batches)
    assert not any(batch.skipped for batch in batches)
    regions = np.concatenate([batch.regions for batch in batches])
    context = np.concatenate([batch.context for batch in batches])
    assert regions.dtype == context.dtype == np.float16
    assert regions.shape == (23, 4, 1280)
    for index in (0, 11, 22):
        pixels = backbone.preprocess(read_photo(folder / f"{index:03}.jpg"))
        expected, mean = backbone.run(pixels[None])
        np.testing.assert_allclose(regions[index], expected[0], atol=5e-3)
        np.testing.assert_allclose(context[index], mean[0], atol=5e-3)


def test_bad_files_are_skipped_with_a_reason_and_the_rest_goes_on(backbone, folder, tmp_path):
    good = folder / "000.jpg"
    empty, text, cut = tmp_path / "empty.jpg", tmp_path / "text.png", tmp_path / "cut.jpg"
    empty.touch()
    text.write_text("hello")
    cut.write_bytes(good.read_bytes()[:700])
    photos = [("a", empty), ("b", good), ("c", text), ("d", cut), ("e", tmp_path / "absent"), ("f", good)]
    batches = list(Extractor(backbone, batch_size=2).extract(photos))
    assert [key for batch in batches for key in batch.keys] == ["b", "f"]
    skipped = [skip for batch in batches for skip in batch.skipped]
    assert [skip.key for skip in skipped] == ["a", "c", "d", "e"]
    assert [skip.path for skip in skipped] == [str(path) for _, path in (photos[0], *photos[2:5])]
    assert all(skip.reason for skip in skipped)
    assert [skip.unreachable for skip in skipped] == [False, False, False, True]
    assert [skip.source is not None for skip in skipped] == [True, True, True, False]


def test_every_photo_says_what_it_was_made_from(backbone, folder, tmp_path):
    shutil.copy(folder / "000.jpg", tmp_path / "copy.jpg")
    shutil.copy(folder / "001.jpg", tmp_path / "other.jpg")
    (batch,) = Extractor(backbone, batch_size=64).extract(pairs(folder))
    assert all(is_source(path, source) for (_, path), source in zip(pairs(folder), batch.sources, strict=True))
    assert is_source(tmp_path / "copy.jpg", batch.sources[0])
    assert not is_source(tmp_path / "other.jpg", batch.sources[0])
    assert is_source(tmp_path / "gone.jpg", batch.sources[0])


def test_another_photo_of_the_same_size_and_time_is_noticed(tmp_path):
    one, two = tmp_path / "1.bmp", tmp_path / "2.bmp"
    for path, colour in ((one, "red"), (two, "blue")):
        Image.new("RGB", (8, 8), colour).save(path)
        os.utime(path, (0, 0))
    assert not is_source(two, source_of(one))


def test_a_photo_that_is_changed_while_it_is_read_is_skipped(backbone, folder, tmp_path, monkeypatch):
    photo = tmp_path / "photo.jpg"
    shutil.copy(folder / "000.jpg", photo)

    opened = open

    class Changing:
        """A file that another program writes to while it is read."""

        def __init__(self, path, *rest, **options):
            self.file = opened(path, *rest, **options)

        def __enter__(self):
            return self

        def __exit__(self, *_):
            self.file.close()

        def fileno(self):
            return self.file.fileno()

        def read(self):
            data = self.file.read()
            photo.write_bytes((folder / "001.jpg").read_bytes())
            return data

    monkeypatch.setattr("smlstm.vision.reading.open", Changing, raising=False)
    (batch,) = Extractor(backbone).extract([("a", photo)])
    assert [(skip.reason, skip.unreachable) for skip in batch.skipped] == [("it was changed while it was read", True)]


def test_the_megapixel_limit_is_passed_on(backbone, folder):
    (batch,) = Extractor(backbone, limit_megapixels=0.001, batch_size=64).extract(pairs(folder))
    assert len(batch.keys) == 0
    assert all("--limit-megapixels" in skip.reason for skip in batch.skipped)
    assert batch.regions.shape == (0, 4, 1280)


def test_features_that_float16_cannot_hold_are_skipped(backbone, folder, monkeypatch):
    extractor = Extractor(backbone, runtime="torch", batch_size=4)
    run = extractor.runner.run

    def overflowing(pixels):
        regions, context = run(pixels)
        regions[0, 0, 0] = np.nan
        context[-1, 0] = 1e9
        return regions, context

    monkeypatch.setattr(extractor.runner, "run", overflowing)
    batch = next(iter(extractor.extract(pairs(folder))))
    assert batch.keys == ["001", "002"]
    assert [skip.key for skip in batch.skipped] == ["000", "003"]


def test_a_consumer_that_stops_leaves_no_thread_behind(backbone, folder):
    before = threading.active_count()
    batches = Extractor(backbone, batch_size=2).extract(pairs(folder) * 10)
    next(batches)
    batches.close()
    assert threading.active_count() == before


def test_who_stops_early_waits_for_the_photo_at_work_not_for_its_batch(backbone, folder, monkeypatch):
    read, reading = [], Extractor._read

    def slowly(self, key, path):
        read.append(key)
        if len(read) > 16:
            time.sleep(0.2)
        return reading(self, key, path)

    monkeypatch.setattr(Extractor, "_read", slowly)
    batches = Extractor(backbone, batch_size=16, workers=1).extract(pairs(folder) * 3)
    next(batches)
    batches.close()
    assert 16 <= len(read) < 30


def test_photos_are_asked_for_only_as_they_are_needed(backbone, folder):
    taken = []

    def endless():
        while True:
            taken.append(len(taken))
            yield str(len(taken)), folder / "000.jpg"

    extractor = Extractor(backbone, batch_size=2, workers=2)
    batches = extractor.extract(endless())
    for _ in range(5):
        next(batches)
    batches.close()
    assert len(taken) <= 2 * (5 + extractor.workers)


@pytest.mark.parametrize("wrong", [{"batch_size": 0}, {"limit_megapixels": 0}])
def test_settings_that_make_no_sense_are_refused(backbone, wrong):
    with pytest.raises(ConfigurationError):
        Extractor(backbone, **wrong)


MEASURE = """
import sys
from pathlib import Path
from smlstm.vision.backbones import load_backbone
from smlstm.vision.extract import Extractor
extractor = Extractor(load_backbone("efficientnet-lite0", grid=7), batch_size=8, workers=2)
photos = ((str(index), Path(sys.argv[1])) for index in range(int(sys.argv[2])))
assert sum(len(batch.keys) for batch in extractor.extract(photos)) == int(sys.argv[2])
# Not from `resource`: what that says begins with the peak of the parent.
print(next(line.split()[1] for line in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in line))
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from /proc")
def test_peak_memory_does_not_grow_with_the_number_of_photos(tmp_path):
    photo = tmp_path / "photo.jpg"
    Image.effect_noise((1024, 768), 50).convert("RGB").save(photo)

    def peak_kilobytes(count: int) -> int:
        command = [sys.executable, "-c", MEASURE, str(photo), str(count)]
        return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)

    peak_kilobytes(1)  # so that the network's conversion is in neither measurement
    few, many = peak_kilobytes(50), peak_kilobytes(400)
    # The features of the 350 photos more would be 45 MB, their pixels 158 MB.
    assert many - few < 25_000
