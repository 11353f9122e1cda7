"""Training steps: pairs a second forwards and backwards against an eager loop of the same model, and peak memory.

The baseline is the way SCAN's public code trains: a loop over images, each expanded to all sentences of the batch,
every pair by itself, autograd over all of it. It has the same weights, the same sentence encoder and the same loss, and
must give the same gradients, which is checked first.

    python benchmarks/training.py [--size compact|paper] [--regions 196] [--batch 101] [--baseline-images 8]

Memory is measured in processes of their own, one for each size, for 101 x 101 pairs of 196 regions.
"""

import argparse
import json
import multiprocessing
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from smlstm.matching.batch import ImageFeatures, Saliency, Tokens
from smlstm.model import SMLSTM, ObjectiveConfig, compact, paper
from smlstm.model.image import scaled
from smlstm.model.objective import ranking_loss, regulariser
from smlstm.text import Vocabulary
from smlstm.training.step import BatchLoss, TrainingBatch

WORDS = 2700


def make(size: str, regions: int, captions: int) -> tuple[SMLSTM, ObjectiveConfig, TrainingBatch]:
    """A model and a batch as Flickr8k has them: captions of 11 words on average."""
    torch.manual_seed(0)
    preset = paper() if size == "paper" else compact()
    model = SMLSTM(preset.model, Vocabulary(tuple(f"w{number}" for number in range(WORDS))))
    lengths = torch.from_numpy(
        np.clip(np.random.default_rng(0).normal(11, 4, captions).round(), 4, 28).astype(np.int64)
    )
    ids = torch.randint(2, WORDS, (captions, int(lengths.max())))
    ids = ids * (torch.arange(ids.shape[1]) < lengths[:, None])
    features = ImageFeatures(
        torch.rand(captions, regions, preset.model.region_width).half(),
        torch.rand(captions, preset.model.context_width).half(),
    )
    objective = preset.objective.model_copy(update={"negatives": None})
    batch = TrainingBatch(features, Tokens(ids, lengths), torch.arange(captions), torch.arange(captions))
    return model, objective, batch


def eager_scores(model: SMLSTM, batch: TrainingBatch, images: int) -> tuple[Tensor, Tensor, Tensor]:
    """Scores and matched maps, image by image: expand to all sentences, then attend, compare and aggregate."""
    kind = next(model.parameters()).dtype
    features = ImageFeatures(batch.features.regions.to(kind), batch.features.context.to(kind))
    features = ImageFeatures(scaled(features.regions), scaled(features.context))
    vectors = model.embedding(batch.tokens)
    assert model.words is not None and model.sentence_context is not None
    words, context = model.words(vectors, batch.tokens), model.sentence_context(vectors, batch.tokens)
    assert model.image_attention is not None and model.sentence_attention is not None
    scores, seen, said = [], [], []
    for image in range(images):
        count = len(words)
        regions = features.regions[image].expand(count, -1, -1)  # n, I, F
        own = features.context[image].expand(count, -1)
        state, p_maps, q_maps = None, [], []
        for _ in range(model.config.steps):
            hidden = words.new_zeros(count, model.config.hidden_width) if state is None else state.hidden
            p = torch.softmax(eager_logits(model.image_attention, regions, own, hidden), 1)
            logits = eager_logits(model.sentence_attention, words, context, hidden)
            q = torch.softmax(logits.masked_fill(~batch.tokens.mask, -torch.inf), 1)
            region, phrase = (p[:, None] @ regions).squeeze(1), (q[:, None] @ words).squeeze(1)
            similarity = model.comparison(model.comparison.image(region), model.comparison.sentence(phrase))
            state = model.aggregation(similarity, state)
            p_maps.append(p[image])
            q_maps.append(q[image])
        assert state is not None
        scores.append(model.aggregation.score(state.hidden))
        seen.append(torch.stack(p_maps))
        said.append(torch.stack(q_maps))
    return torch.stack(scores), torch.stack(seen), torch.stack(said)


def eager_logits(attention: torch.nn.Module, candidates: Tensor, context: Tensor, hidden: Tensor) -> Tensor:
    """The three-way MLP as written, for every candidate of every pair; n, C."""
    query = attention.context(context) + attention.hidden(hidden)
    own = attention.candidate(candidates)
    if attention.modulation == "joint":
        return attention.output(torch.sigmoid(own + query[:, None])).squeeze(2)
    return (torch.sigmoid(own) * (attention.output.weight[0] * torch.tanh(query))[:, None]).sum(2)


def eager_loss(model: SMLSTM, objective: ObjectiveConfig, batch: TrainingBatch, images: int) -> Tensor:
    scores, seen, said = eager_scores(model, batch, images)
    own = torch.arange(images)
    ranking = ranking_loss(scores, own, torch.arange(len(batch.image_of)), objective)
    maps = Saliency(seen, said, seen.new_zeros(images, model.config.steps))
    return ranking + regulariser(maps, batch.tokens.mask[:images], objective)


def gradient(model: SMLSTM, loss: Tensor) -> dict[str, Tensor]:
    model.zero_grad()
    loss.backward()
    return {name: parameter.grad.clone() for name, parameter in model.named_parameters() if parameter.grad is not None}


def check_same(size: str) -> float:
    """Largest difference of the two ways' gradients in double precision, relative to the largest gradient."""
    model, objective, batch = make(size, 12, 8)
    model.double()
    ours = gradient(model, BatchLoss(model, objective)(batch).sum())
    theirs = gradient(model, eager_loss(model, objective, batch, 8))
    largest = max(float(value.abs().max()) for value in theirs.values())
    return max(float((ours[name] - theirs[name]).abs().max()) for name in theirs) / largest


def clock(work: Callable[[], None], repeats: int) -> tuple[float, float]:
    """Best wall-clock and best processor seconds of a few repeats."""
    walls, processor = [], []
    for _ in range(repeats):
        wall, own = time.perf_counter(), time.process_time()
        work()
        walls.append(time.perf_counter() - wall)
        processor.append(time.process_time() - own)
    return min(walls), min(processor)


def _peak(size: str, regions: int, captions: int, answers: "multiprocessing.Queue[float]") -> None:
    model, objective, batch = make(size, regions, captions)
    model.train()
    optimiser = torch.optim.Adam(model.parameters())
    loss = BatchLoss(model, objective)
    for _ in range(2):  # the second step has Adam's moments beside everything else
        optimiser.zero_grad()
        loss(batch).sum().backward()
        optimiser.step()
    answers.put(own_peak_gib())


def own_peak_gib() -> float:
    """Not `ru_maxrss`: a child begins with its parent's."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 2**20


def peak_gib(size: str, regions: int, captions: int) -> float:
    """Peak memory of a process that does two training steps, torch itself included."""
    context = multiprocessing.get_context("spawn")
    answers: multiprocessing.Queue[float] = context.Queue()
    process = context.Process(target=_peak, args=(size, regions, captions, answers))
    process.start()
    found = answers.get()
    process.join()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=["compact", "paper"], default="compact")
    parser.add_argument("--regions", type=int, default=196)
    parser.add_argument("--batch", type=int, default=101)
    parser.add_argument("--baseline-images", type=int, default=8, help="rows of the grid that the baseline does")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--no-memory", action="store_true")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    model, objective, batch = make(options.size, options.regions, options.batch)
    loss = BatchLoss(model, objective)
    ours = clock(lambda: gradient(model, loss(batch).sum()) and None, options.repeats)
    baseline = clock(
        lambda: gradient(model, eager_loss(model, objective, batch, options.baseline_images)) and None, options.repeats
    )
    our_pairs, baseline_pairs = options.batch**2, options.batch * options.baseline_images
    result = {
        "size": options.size,
        "regions": options.regions,
        "pairs": our_pairs,
        "gradient_difference": check_same(options.size),
        "pairs_per_second": our_pairs / ours[0],
        "baseline_pairs_per_second": baseline_pairs / baseline[0],
        "ratio": our_pairs / ours[0] / (baseline_pairs / baseline[0]),
        "ratio_processor_time": our_pairs / ours[1] / (baseline_pairs / baseline[1]),
    }
    if not options.no_memory:
        result |= {f"peak_gib_{size}": peak_gib(size, options.regions, options.batch) for size in ("compact", "paper")}
    if options.json:
        print(json.dumps(result, indent=2))
        return
    for name, value in result.items():
        print(f"{name:<24} {value:,.4g}" if isinstance(value, float) else f"{name:<24} {value}")


if __name__ == "__main__":
    main()
