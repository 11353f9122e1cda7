"""The shipped model as a user meets it: how long it takes to load, and to look closely at 100 photos, in one run.

    python benchmarks/pretrained.py [--model PAIR]

| compared | what it does |
|---|---|
| load | a fresh process, from torch imported to a pair that can answer; best and median of several |
| shortlist | encode a sentence, cosines with 100 photos: the baseline that does not look |
| rerank | encode a sentence with both matchers, score 100 photos with sm-LSTM, add both, to probabilities |
| eager rerank | the same through the plain forward pass of the model |

Every query is another sentence, so that nothing is answered from memory. Photos are encoded before, as a library
keeps them.
"""

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

from smlstm import ImageFeatures
from smlstm.pair import load_model, model_folder
from smlstm.search.naming import shipped_phrases
from smlstm.text.language_model import language_model

PHOTOS, LOADS = 100, 5
_LOAD = """
import sys, time, torch
began = time.perf_counter()
from smlstm.pair import load_model
load_model(sys.argv[1]).embed_sentences(["a dog"])
print(time.perf_counter() - began)
"""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, default=None, help="a pair (default: the shipped one)")
    parser.add_argument("--queries", type=int, default=60)
    options = parser.parse_args()
    folder = model_folder(options.model)
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.suffix in (".json", ".safetensors"))
    print(f"{folder.name}: {size / 1e6:.1f} MB; {os.cpu_count()} cores, {torch.get_num_threads()} threads")
    command = [sys.executable, "-c", _LOAD, str(folder)]
    loads = sorted(float(subprocess.run(command, check=True, capture_output=True).stdout) for _ in range(LOADS))
    print(f"load, torch imported: {loads[0]:.2f} s best, {statistics.median(loads):.2f} s median of {LOADS} processes")

    pair = load_model(folder)
    generator = torch.Generator().manual_seed(0)
    width = pair.reranker.config.region_width
    regions = torch.randn(PHOTOS, pair.regions, width, generator=generator).relu()
    features = ImageFeatures(regions, regions.mean(1))
    with torch.inference_mode():
        vectors, images = pair.embed_images(features), pair.reranker.encode_images(features)
    phrases = shipped_phrases()
    sentences = [
        f"{phrases[n % len(phrases)]} and {phrases[(7 * n + 3) % len(phrases)]}" for n in range(options.queries)
    ]

    def eager(sentence: str) -> None:
        with torch.inference_mode():
            scores = pair.reranker.score(images, pair.reranker.encode_sentences([sentence]))
            pair.calibration.log_odds(scores, [sentence]).sigmoid()

    asked: dict[str, Callable[[str], object]] = {
        "shortlist": lambda sentence: vectors @ pair.embed_sentences([sentence]).T,
        "rerank": lambda text: pair.calibration.log_odds(pair.score(vectors, images, [text]), [text]).sigmoid(),
        "eager rerank": eager,
    }
    times = {name: measure(ask, sentences) for name, ask in asked.items()}
    for name, (middle, late) in times.items():
        ratio = middle / times["shortlist"][0]
        print(f"{name:13} {1000 * middle:7.1f} ms p50  {1000 * late:7.1f} ms p95  {ratio:6.1f} x the shortlist's time")


def measure(ask: Callable[[str], object], sentences: list[str]) -> tuple[float, float]:
    """Median and 95th percentile of the seconds a query takes."""
    ask(sentences[0])
    seconds = []
    for sentence in sentences:
        language_model().forget()
        began = time.perf_counter()
        ask(sentence)
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds), statistics.quantiles(seconds, n=20)[-1]


if __name__ == "__main__":
    main()
