"""Random batches from the feature store against a raw memory-mapped array, in one run.

    python benchmarks/store.py [--photos 4000] [--regions 100] [--width 1280]

Cold means that the files' pages were dropped from the page cache before each batch (Linux only; a disk of a virtual
machine may still have them in its host's memory).
"""

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from smlstm.data import FeatureSpec, FeatureStore

BATCH = 100


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--photos", type=int, default=4000)
    parser.add_argument("--regions", type=int, default=100)
    parser.add_argument("--width", type=int, default=1280)
    parser.add_argument("--batches", type=int, default=40)
    parser.add_argument("--folder", type=Path, default=None, help="where to write (default: temporary)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        run(Path(folder), options.photos, options.regions, options.width, options.batches)


def run(folder: Path, photos: int, regions: int, width: int, batches: int) -> None:
    spec = FeatureSpec("benchmark", "none", "none", regions, width, width)
    rng = np.random.default_rng(0)
    block = rng.standard_normal((BATCH, regions, width)).astype(np.float16)
    context = block.mean(axis=1, dtype=np.float32).astype(np.float16)

    def append_to_store() -> None:
        with FeatureStore.open(folder / "store", spec) as store:
            for start in range(0, photos, BATCH):
                store.append([f"{start + place}.jpg" for place in range(BATCH)], block, context)

    def write_raw() -> None:
        with (folder / "raw.f16").open("wb") as file:
            for _ in range(0, photos, BATCH):
                file.write(np.concatenate([block.reshape(BATCH, -1), context], axis=1).tobytes())
                file.flush()
                os.fsync(file.fileno())

    raw_time, store_time = timed(write_raw), timed(append_to_store)
    store = FeatureStore.open(folder / "store")
    stored = sum(file.stat().st_size for file in (folder / "store").iterdir())
    print(f"{photos} photos, {regions} x {width} regions + {width} context, float16")
    print(f"bytes a photo: {stored / photos:.0f} ({store.record_bytes} of features)")
    print(f"append: {photos / store_time:.0f} photos/s, raw write + fsync {photos / raw_time:.0f} photos/s")
    print(f"append, store / raw: {raw_time / store_time:.2f}")

    def open_raw() -> np.memmap:
        return np.memmap(folder / "raw.f16", np.float16, "r", shape=(photos, regions * width + width))

    def read_raw(raw: np.memmap, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        records = raw[rows]
        return records[:, : regions * width].reshape(-1, regions, width), records[:, regions * width :]

    mapped = open_raw()
    for start in range(0, photos, BATCH):  # both warm: every page seen once
        read_raw(mapped, np.arange(start, start + BATCH))
        store.read_at(np.arange(start, start + BATCH))

    def warm_raw(rows: np.ndarray) -> object:
        return read_raw(mapped, rows)

    def cold_raw(rows: np.ndarray) -> object:
        return read_raw(open_raw(), rows)  # anew: the pages of a mapping that is open cannot be dropped

    check = rng.integers(0, photos, BATCH)
    assert all(np.array_equal(*pair) for pair in zip(read_raw(mapped, check), store.read_at(check), strict=True))
    for kind, raw_batch in (("warm", warm_raw), ("cold", cold_raw)):
        cold = kind == "cold"
        if cold:
            if not hasattr(os, "posix_fadvise"):
                break
            mapped._mmap.close()
        times: dict[str, list[float]] = {"raw": [], "store": []}
        for _ in range(batches):
            for name, read in (("raw", raw_batch), ("store", store.read_at)):
                rows = rng.permutation(photos)[:BATCH]
                if cold:
                    drop(folder)
                times[name].append(timed(lambda read=read, rows=rows: read(rows)))
        raw_ms, store_ms = (1000 * statistics.median(times[name]) for name in ("raw", "store"))
        print(f"{kind}: random batches of {BATCH}: raw memory map {raw_ms:.2f} ms, store {store_ms:.2f} ms")
        print(f"{kind}, store / raw: {raw_ms / store_ms:.2f}")


def timed(job: Callable[[], object]) -> float:
    start = time.perf_counter()
    job()
    return time.perf_counter() - start


def drop(folder: Path) -> None:
    for file in folder.rglob("*.f16"):
        with file.open("rb") as opened:
            os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


if __name__ == "__main__":
    main()
