"""A million photos, embeddings only: what finding the shortlist takes, by index and exactly.

    python benchmarks/search_million.py [--entries 1000000] [--model PAIR] [--store STORE | --photos FOLDER]

Embeddings are drawn from real ones with noise, as in `search.py`. It takes 2 GB on the disk and as much in memory.
"""

import argparse
import resource
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch

from search import NOISE, choose_model, real_features, timed, told
from smlstm.matching.batch import ImageFeatures
from smlstm.pair import Pair
from smlstm.search.indexing import photo_table
from smlstm.search.lance_table import FILES, Table, photo_schema
from smlstm.search.naming import shipped_phrases
from smlstm.search.nearest import exact, keep_index, nearest
from smlstm.search.query import Term, direction
from smlstm.search.snapshot import Filter, Snapshot
from smlstm.vision.photo_header import About


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--entries", type=int, default=1_000_000)
    parser.add_argument("--real", type=int, default=1000, help="at most so many real photos to draw from")
    parser.add_argument("--model", type=Path, default=None)
    parser.add_argument("--store", type=Path, default=None, help="a feature store of the model's backbone and grid")
    parser.add_argument("--photos", type=Path, default=None, help="a folder of photos, instead of a store")
    parser.add_argument("--folder", type=Path, default=None, help="where to write (default: temporary)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        pair, _ = choose_model(options.model, Path(name))
        features = real_features(pair, options.store, options.photos, options.real)
        run(Path(name), pair, features, shipped_phrases()[::4], options.entries)


def run(folder: Path, pair: Pair, features: ImageFeatures, queries: list[str], count: int) -> None:
    """Embeddings only: what finding the shortlist takes."""
    with torch.inference_mode():
        real = pair.embed_images(features)
    spread, generator = real.std(0, keepdim=True), torch.Generator().manual_seed(1)
    photos = Table(folder / "photos.lance", photo_schema(real.shape[1], 1), 1 << 17)
    start = time.perf_counter()
    for first in range(0, count, 20_000):
        size = min(20_000, count - first)
        drawn = real[torch.randint(0, len(real), (size,), generator=generator)]
        drawn = drawn + NOISE * spread * torch.randn(drawn.shape, generator=generator)
        vectors = torch.nn.functional.normalize(drawn, dim=1).half().numpy()
        contents = list(range(first, first + size))
        photos.append(photo_table(photos.schema, contents, vectors, np.zeros((size, 1), np.uint8), [About()] * size))
    print(f"{count} embeddings written in {time.perf_counter() - start:.0f} s, {photos.bytes / count:.0f} bytes each")
    files = Table(folder / "files.lance", FILES, 1 << 20)
    rows = {"file": np.arange(count), "path": pa.array([b"%d.jpg" % number for number in range(count)])}
    rows |= {"size": np.zeros(count, np.int64), "modified": np.zeros(count, np.int64), "content": np.arange(count)}
    files.append(pa.table({**rows, "reason": pa.nulls(count, pa.string())}, schema=FILES))
    start = time.perf_counter()
    keep_index(photos, 1)
    print(f"index built in {time.perf_counter() - start:.0f} s; then {photos.bytes / count:.0f} bytes each")
    start = time.perf_counter()
    snapshot = Snapshot(files, photos)
    print(f"both tables read in {time.perf_counter() - start:.2f} s")
    allowed = snapshot.photos(snapshot.files(Filter()))
    directions = {query: direction([Term(query)], pair.embed_sentences([query])).numpy() for query in queries}
    told("nearest 100, by index", timed(lambda query: nearest(snapshot, directions[query], allowed, 100, 1), queries))
    print(f"memory before the embeddings are read: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB")
    told("nearest 100, exactly", timed(lambda query: exact(snapshot.vectors, directions[query], allowed, 100), queries))
    found = [
        len(
            set(nearest(snapshot, directions[query], allowed, 100, 1)[0].tolist())
            & set(exact(snapshot.vectors, directions[query], allowed, 100)[0].tolist())
        )
        for query in queries[:20]
    ]
    print(f"of the nearest 100, {statistics.mean(found):.1f}% are found by the index")
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB")


if __name__ == "__main__":
    main()
