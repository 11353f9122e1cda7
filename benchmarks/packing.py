"""How small a photo's regions can be stored before search notices: scores, top tens and R@K from each form.

    python benchmarks/packing.py DATASET FEATURES [--model PAIR] [--images 600] [--sentences 200]

The reference is computed from the features as the store has them (float16). The top ten is that of a reranked
shortlist of 100, R@K (sentence to photo) is over all images; a score's error is in deviations over the photos.
"""

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from smlstm.data import open_dataset, open_features
from smlstm.matching.batch import Batch, ImageFeatures
from smlstm.pair import Pair, load_model
from smlstm.search.packing import Packing

Scores = NDArray[np.float32]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dataset", type=Path)
    parser.add_argument("features", type=Path)
    parser.add_argument("--model", type=Path, default=None, help="default: the shipped one")
    parser.add_argument("--split", default="dev")
    parser.add_argument("--images", type=int, default=600)
    parser.add_argument("--sentences", type=int, default=200)
    options = parser.parse_args()

    pair = load_model(options.model)
    records = list(open_dataset(options.dataset).split(options.split))[: options.images]
    store = open_features(options.features)
    regions, context = store.read([record.key for record in records])
    features = ImageFeatures(torch.from_numpy(regions).float(), torch.from_numpy(context).float())
    # One caption an image, of images spread over all.
    image_of = np.linspace(0, len(records) - 1, min(options.sentences, len(records))).astype(int)
    sentences = [records[image].captions[0] for image in image_of]
    vectors = pair.embed_images(features)
    near = (vectors @ pair.embed_sentences(sentences).T).numpy()
    packing = Packing(pair.reranker, pair.regions)

    encode = torch.inference_mode()(pair.reranker.encode_images)
    encoded = encode(features)
    reference = score(pair, vectors, encoded, sentences)
    print(f"{len(records)} images, {len(sentences)} sentences; on the shortlist, the photo's place is within 100 for")
    places = (near >= near[image_of, np.arange(len(sentences))]).sum(0)
    print(f"{(places <= 100).mean():.1%} of them\n")
    count = pair.regions
    cnn = count * pair.reranker.config.region_width
    single = sum(2 * shape[0] for shape in packing.shapes if len(shape) == 1)
    grids = [shape for shape in packing.shapes if len(shape) > 1]
    forms: list[tuple[str, int, Callable[[], Batch]]] = [
        ("computed anew", 2 * cnn, lambda: encoded),
        (
            "the CNN's, bytes, a step a channel",
            cnn + 4 * pair.reranker.config.region_width,
            lambda: encode(ImageFeatures(in_bytes(features.regions, 1), features.context)),
        ),
        ("projected, float16", packing.old_width, lambda: encoded._map(lambda tensor: tensor.half().float())),
        (
            "projected, bytes, a step a region",
            single + sum(count * (shape[-1] + 4) for shape in grids),
            lambda: encoded._map(lambda tensor: in_bytes(tensor, 2) if tensor.dim() > 2 else tensor.half().float()),
        ),
        ("projected, bytes, a step a channel", packing.width, lambda: packing.unpack(packing.pack(encoded))),
    ]
    print(f"{'regions stored as':36} {'bytes a photo':>13} {'error':>8} {'same top 10':>12}  R@1, R@5, R@10")
    for name, size, make in forms:
        scores = score(pair, vectors, make(), sentences)
        error = float(np.abs(scores - reference).mean() / reference.std(0).mean())
        same = np.mean([top_ten(scores, near, k) == top_ten(reference, near, k) for k in range(len(sentences))])
        print(f"{name:36} {size:13,} {error:8.4f} {same:12.1%}  {recalls(scores, image_of)}", flush=True)


def score(pair: Pair, vectors: torch.Tensor, images: Batch, sentences: list[str]) -> Scores:
    parts = [pair.score(vectors, images, sentences[start : start + 50]) for start in range(0, len(sentences), 50)]
    found: Scores = torch.cat(parts, 1).numpy()
    return found


def top_ten(scores: Scores, near: Scores, sentence: int) -> list[int]:
    shortlist = np.argsort(-near[:, sentence], kind="stable")[:100]
    best = shortlist[np.argsort(-scores[shortlist, sentence], kind="stable")[:10]]
    return [int(image) for image in best]


def recalls(scores: Scores, image_of: NDArray[np.int64]) -> str:
    places = (scores >= scores[image_of, np.arange(len(image_of))]).sum(0)
    return ", ".join(f"{(places <= k).mean() * 100:.1f}" for k in (1, 5, 10))


def in_bytes(tensor: torch.Tensor, axis: int) -> torch.Tensor:
    """Through 255 steps between the least and the largest value along an axis."""
    least = tensor.amin(axis, keepdim=True).half().float()
    step = ((tensor.amax(axis, keepdim=True) - least) / 255).half().float().clamp(min=1e-7)
    return ((tensor - least) / step).round().clamp(0, 255) * step + least


if __name__ == "__main__":
    main()
