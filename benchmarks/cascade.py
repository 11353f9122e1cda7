"""What a shortlist costs and what it saves: the cascade against exhaustive scoring, on a dataset's dev split.

    python benchmarks/cascade.py SHORTLISTER MATCHER DATASET FEATURES [--images 1000] [--k 100] [--k-images 25]

Both score with sm-LSTM alone, and with MNLM's score added (each divided by its deviation over all pairs); a third
cascade has a shortlist by the sm-LSTM's own global score, if it has one. Time is that of scoring from stored features,
encoding included; all in one run, on the same photos and sentences.
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from smlstm import Matcher
from smlstm.data import open_dataset, open_features
from smlstm.evaluation import metrics, ranks
from smlstm.model import SMLSTM
from smlstm.scoring import Cascade, Stored, score_all


def show(name: str, scores: Any, image_of: Any, seconds: float, whole: float) -> None:
    found = ranks(scores, image_of)
    annotation, retrieval = metrics(found.annotation), metrics(found.retrieval)
    hits = "/".join(f"{value:.1f}" for side in (annotation, retrieval) for value in (side.r1, side.r5, side.r10))
    total = annotation.sum + retrieval.sum
    print(f"{name:34} Sum {total:6.1f}  {hits}  {seconds:7.1f} s, {seconds / whole:.3f} of exhaustive", flush=True)


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    begin = time.perf_counter()
    return work(), time.perf_counter() - begin


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("shortlister", "matcher", "dataset", "features"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--images", type=int, default=1000)
    parser.add_argument("--k", type=int, default=100)
    parser.add_argument("--k-images", type=int, default=25)
    parser.add_argument("--split", default="dev")
    options = parser.parse_args()

    cheap, costly = Matcher.load(options.shortlister).eval(), Matcher.load(options.matcher).eval()
    records = list(open_dataset(options.dataset).split(options.split))[: options.images]
    store = open_features(options.features)
    images = Stored(store, store.rows([record.key for record in records]))
    sentences = [caption for record in records for caption in record.captions]
    image_of = np.repeat(np.arange(len(records)), [len(record.captions) for record in records])
    print(f"{len(images)} images, {len(sentences)} sentences, {len(images) * len(sentences):,} pairs")

    first, cheap_seconds = timed(lambda: np.asarray(score_all(cheap, images, sentences)))
    exhaustive, whole = timed(lambda: np.asarray(score_all(costly, images, sentences)))
    weights = (1 / float(exhaustive.std()), 1 / float(first.std()))
    show(f"{cheap.kind}, exhaustive", first, image_of, cheap_seconds, whole)
    show(f"{costly.kind}, exhaustive", exhaustive, image_of, whole, whole)
    show("both added, exhaustive", weights[0] * exhaustive + weights[1] * first, image_of, whole + cheap_seconds, whole)

    kinds = [(f"{costly.kind}, list by {cheap.kind}", cheap, (1.0, 0.0)), ("both added", cheap, weights)]
    if isinstance(costly, SMLSTM) and costly.config.global_score:
        kinds.append((f"{costly.kind}, list by its own", None, (1.0, 0.0)))
    for name, shortlister, given in kinds:
        cascade = Cascade(shortlister, costly, k=options.k, k_images=options.k_images, weights=given)
        scores, seconds = timed(lambda cascade=cascade: np.asarray(score_all(cascade, images, sentences)))
        show(name, scores, image_of, seconds, whole)
        shortlist = cascade.shortlist(images, sentences)
        recall = shortlist.recall(image_of)
        print(
            f"    {len(shortlist):,} pairs ({len(shortlist) / exhaustive.size:.1%}); right pairs among them "
            f"{recall.either:.1%}, images with a right sentence {recall.images:.1%}"
        )
    print(f"deviations: {costly.kind} {1 / weights[0]:.4f}, {cheap.kind} {1 / weights[1]:.4f}")


if __name__ == "__main__":
    main()
