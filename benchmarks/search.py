"""A large library of photos: latency, agreement, memory, size, and the time to notice that nothing changed, in one run.

    python benchmarks/search.py [--entries 100000] [--model PAIR] [--store STORE | --photos FOLDER]

The entries are drawn from real photos: each is one of them as both models encode it, with noise of a third of its
channels' deviations over all of them. Real ones come from a feature store, a folder, or, without either, from crops of
the photos inside scikit-image. Without a model (and none shipped) a random pair of the compact size stands in,
whose latencies are right and whose agreement says little.

| compared | what it does |
|---|---|
| search | a shortlist of 100, reranked: what `smlstm search` does; exact, or by index, which it uses from 50,000 on |
| embeddings only | the same without rerank |
| exhaustive | sm-LSTM over every entry |

A library takes 82 kB an entry on the disk with the shipped model: 8 GB for 100,000.
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch
from PIL import Image

from smlstm.data import FeatureStore
from smlstm.errors import InputError
from smlstm.matching.batch import Batch, ImageFeatures, join
from smlstm.model import MNLM, SMLSTM, compact
from smlstm.pair import Pair, load_model
from smlstm.pair.pair import save_pair
from smlstm.search import Library
from smlstm.search.indexing import photo_table
from smlstm.search.lance_table import FILES, file_id
from smlstm.search.manifest import Manifest, write_manifest
from smlstm.search.naming import shipped_phrases
from smlstm.search.nearest import exact, keep_index
from smlstm.search.query import Term, direction
from smlstm.text import Vocabulary
from smlstm.text.language_model import language_model
from smlstm.vision.photo_header import About

BLOCK = 500
NOISE = 1 / 3
GOAL_P50, GOAL_SAME = 0.150, 0.99


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--entries", type=int, default=100_000)
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--exhaustive", type=int, default=20, help="queries that are also answered exhaustively")
    parser.add_argument("--real", type=int, default=1000, help="at most so many real photos to draw from")
    parser.add_argument("--model", type=Path, default=None)
    parser.add_argument("--store", type=Path, default=None, help="a feature store of the model's backbone and grid")
    parser.add_argument("--photos", type=Path, default=None, help="a folder of photos, instead of a store")
    parser.add_argument("--folder", type=Path, default=None, help="where to write (default: temporary)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        pair, model = choose_model(options.model, folder)
        features = real_features(pair, options.store, options.photos, options.real)
        print(f"{options.entries} entries from {len(features)} real photos, {torch.get_num_threads()} threads")
        queries = shipped_phrases()[:: max(1, len(shipped_phrases()) // options.queries)][: options.queries]
        library = build(folder, pair, features, options.entries)
        measure(library, queries, options.exhaustive)
        unchanged(library)
        cold_start(library, model)


def choose_model(model: Path | None, folder: Path) -> tuple[Pair, Path | None]:
    try:
        return load_model(model), model
    except InputError:
        if model is not None:
            raise
    torch.manual_seed(0)
    words, sizes = Vocabulary.build(shipped_phrases()), compact(regions=100)
    told = {"backbone": "efficientnet-lite2", "regions": 100}
    shortlist = MNLM(sizes.baseline.model_copy(update=told), words)
    save_pair(folder / "model", shortlist, SMLSTM(sizes.model.model_copy(update=told), words), None)
    print("no model is given or shipped: a random pair of the compact size stands in")
    return load_model(folder / "model"), folder / "model"


def real_features(pair: Pair, store: Path | None, photos: Path | None, most: int) -> ImageFeatures:
    if store is not None:
        opened = FeatureStore.open(store)
        regions, context = opened.read(opened.keys()[:most])
        return ImageFeatures(torch.from_numpy(np.array(regions)), torch.from_numpy(np.array(context)))
    if photos is not None:
        found = sorted(path for path in photos.rglob("*") if path.suffix.lower() in (".jpg", ".jpeg", ".png"))
        return ImageFeatures.from_numpy(*pair.photo_reader().read(found[:most]))
    import skimage  # noqa: PLC0415 - only here

    generator = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        crops = []
        for name in ("astronaut.png", "chelsea.png", "coffee.png", "motorcycle_left.png", "rocket.jpg", "hubble.jpg"):
            path = Path(skimage.__file__).parent / "data" / name
            if not path.is_file():
                continue
            with Image.open(path) as image:
                for number in range(min(12, most)):
                    left, top = (int(generator.integers(0, side // 2)) for side in image.size)
                    box = (left, top, left + image.width // 2, top + image.height // 2)
                    crops.append(Path(folder) / f"{path.stem}-{number}.png")
                    image.convert("RGB").crop(box).save(crops[-1])
        return ImageFeatures.from_numpy(*pair.photo_reader().read(crops[:most]))


def noisy(pair: Pair, features: ImageFeatures, count: int) -> Iterator[tuple[np.ndarray, Batch]]:
    """Entries, a block at a time: embeddings and encoded images."""
    generator = torch.Generator().manual_seed(0)
    with torch.inference_mode():
        vectors = pair.embed_images(features)
        blocks = (features.select(slice(start, start + 100)) for start in range(0, len(features), 100))
        encoded = join([pair.reranker.encode_images(block) for block in blocks])

        def shaken(tensor: torch.Tensor, rows: torch.Tensor, spread: torch.Tensor) -> torch.Tensor:
            drawn = tensor[rows]
            return drawn + NOISE * spread * torch.randn(drawn.shape, generator=generator)

        spreads: dict[int, torch.Tensor] = {}
        for start in range(0, count, BLOCK):
            rows = torch.randint(0, len(features), (min(BLOCK, count - start),), generator=generator)
            images = encoded._map(
                lambda tensor, rows=rows: shaken(
                    tensor, rows, spreads.setdefault(id(tensor), tensor.std(0, keepdim=True))
                )
            )
            drawn = shaken(vectors, rows, vectors.std(0, keepdim=True))
            yield torch.nn.functional.normalize(drawn, dim=1).half().numpy(), images


def build(folder: Path, pair: Pair, features: ImageFeatures, count: int) -> Library:
    """A library whose files exist, each with an entry drawn for it."""
    library = Library(folder / "library", model=pair)
    start = time.perf_counter()
    paths = make_files(folder / "photos", count)
    done = 0
    for vectors, images in noisy(pair, features, count):
        contents = list(range(done, done + len(vectors)))
        facts = [About(640, 480)] * len(vectors)
        regions = library.packing.pack(images)
        library.photos.append(photo_table(library.photos.schema, contents, vectors, regions, facts))
        done += len(vectors)
    rows = [
        {"file": file_id(path), "path": os.fsencode(path), "size": 0, "modified": Path(path).stat().st_mtime_ns}
        | {"content": number, "reason": None}
        for number, path in enumerate(paths)
    ]
    library.files.append(pa.Table.from_pylist(rows, FILES))
    manifest = Manifest()
    manifest.add(str((folder / "photos").resolve()), None)
    write_manifest(library.folder, manifest)
    library.photos.compact(force=True)
    print(f"made in {time.perf_counter() - start:.0f} s")
    print(f"{library.photos.bytes / count:.0f} bytes a photo, of which {library.packing.width} are regions")
    return library


def make_files(folder: Path, count: int) -> list[str]:
    paths = []
    for number in range(count):
        parent = folder.resolve() / f"{number // 1000:04}"
        if number % 1000 == 0:
            parent.mkdir(parents=True)
        path = parent / f"{number:07}.jpg"
        path.touch()
        paths.append(str(path))
    return paths


def timed(ask: Callable[[str], object], queries: list[str]) -> list[float]:
    ask(queries[0])  # the first one reads what all share
    seconds = []
    for query in queries:
        language_model().forget()  # each way of asking reads its sentences itself
        start = time.perf_counter()
        ask(query)
        seconds.append(time.perf_counter() - start)
    return seconds


def told(name: str, seconds: list[float]) -> float:
    middle = statistics.median(seconds)
    late = sorted(seconds)[min(len(seconds) - 1, int(0.95 * len(seconds)))]
    print(f"{name:<44} p50 {1e3 * middle:8.1f} ms  p95 {1e3 * late:8.1f} ms")
    return middle


def measure(library: Library, queries: list[str], exhaustive: int) -> None:
    by_index = Library(library.folder, model=library.pair, exact_below=1)
    keep_index(library.photos, 1)
    rerank = told("search, rerank of 100", timed(library.search, queries))
    told("search by index, rerank of 100", timed(by_index.search, queries))
    told("embeddings only", timed(lambda query: library.search(query, shortlist=0), queries))
    told("embeddings only, by index", timed(lambda query: by_index.search(query, shortlist=0), queries))
    print(f"goal of {1e3 * GOAL_P50:.0f} ms for p50: {'met' if rerank <= GOAL_P50 else 'missed'}")
    some = queries[:exhaustive]
    start = time.perf_counter()
    score_everything(library, some[:1])
    alone = time.perf_counter() - start
    print(f"{'exhaustive sm-LSTM, one query':<44} {alone:12.1f} s, {alone / rerank:.0f} times the search")
    agreement(library, by_index, some)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"peak memory {peak:.0f} MiB, all of this included")


def score_everything(library: Library, queries: list[str]) -> torch.Tensor:
    """Scores of all entries in the order of the table; P, N."""
    searcher, parts = library.searcher(), []
    for start in range(0, len(searcher.snapshot.contents), BLOCK):
        rows = range(start, min(start + BLOCK, len(searcher.snapshot.contents)))
        parts.append(library.pair.score(*searcher.encoded(list(rows)), queries))
    return torch.cat(parts)


def agreement(library: Library, by_index: Library, queries: list[str]) -> None:
    scores = score_everything(library, queries)
    snapshot = library.snapshot()
    same = index_same = reached = 0
    for column, query in enumerate(queries):
        vector = direction([Term(query)], library.pair.embed_sentences([query])).numpy()
        rows, _ = exact(snapshot.vectors, vector, np.ones(len(snapshot.contents), bool), 100)
        best = rows[scores[torch.from_numpy(rows), column].argsort(descending=True)[:10].numpy()]
        expected = set(snapshot.contents[best].tolist())
        same += {match.content for match in library.search(query)} == expected
        index_same += {match.content for match in by_index.search(query)} == expected
        overall = snapshot.contents[scores[:, column].topk(10).indices.numpy()]
        reached += len(set(overall.tolist()) & set(snapshot.contents[rows].tolist()))
    share = same / len(queries)
    print(f"top 10 equal to exhaustive scores within the shortlist's reach: {share:.1%}, by index", end=" ")
    print(f"{index_same / len(queries):.1%} (goal {GOAL_SAME:.0%}: {'met' if share >= GOAL_SAME else 'missed'})")
    print(f"of the exhaustive top 10 of all entries, {reached / len(queries) / 10:.1%} are on the shortlist")


def unchanged(library: Library) -> None:
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        outcome = library.index()
        seconds.append(time.perf_counter() - start)
        assert outcome.total == 0, "something changed"
    print(f"noticed in {min(seconds):.2f} s that nothing changed")


def cold_start(library: Library, model: Path | None) -> None:
    """Best of three, in turns, of a whole command and of importing torch alone."""
    options = ["--library", str(library.folder), *(["--model", str(model)] if model else [])]
    code = "from smlstm.cli import main; main()"
    commands = {
        "torch": [sys.executable, "-c", "import torch"],
        "search": [sys.executable, "-c", code, "search", "a dog on a beach", "-k", "5", *options],
        "--no-index": [sys.executable, "-c", code, "search", "a dog on a beach", "-k", "5", "--no-index", *options],
    }
    # An installed package has its bytecode beside it; a checkout writes its own at the first run, if it may.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    for command in commands.values():
        subprocess.run(command, check=True, capture_output=True, env=environment)
    seconds: dict[str, float] = dict.fromkeys(commands, float("inf"))
    for _ in range(3):
        for name, command in commands.items():
            start = time.perf_counter()
            subprocess.run(command, check=True, capture_output=True, env=environment)
            seconds[name] = min(seconds[name], time.perf_counter() - start)
    for name in ("search", "--no-index"):
        beyond = seconds[name] - seconds["torch"]
        print(f"cold start, {name}: {seconds[name]:.2f} s, {beyond:.2f} s beyond importing torch")


if __name__ == "__main__":
    main()
