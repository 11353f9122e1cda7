"""All pairs at the paper's size and the compact one, against an eager loop and against bare products, in one run.

    python benchmarks/scoring.py [--seconds 25] [--processor-time]

The eager loop scores as SCAN's published code does: for each image, the image is repeated for all sentences and the
equations run on them as they are printed, in plain torch with the same weights. `hoisted` is the same loop by
a more careful hand: candidates and contexts are projected before the steps instead of in each. `padded` is the loop on
sentences of 50 words, as the paper pads them; the others stop at the longest of their batch. Sentences are encoded
beforehand on all sides; what the engine prepares of them is counted. Every figure is the best of several rounds
in which all take turns, so that other work on the machine touches them alike.
"""

import argparse
import os
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from smlstm.matching.batch import ImageFeatures, Tokens
from smlstm.model import SMLSTM, Preset, compact, paper
from smlstm.model.image import scaled
from smlstm.scoring import choose_precision, score_all, score_pairs
from smlstm.scoring.fused import FusedScorer
from smlstm.scoring.job import choose_tile
from smlstm.text import Vocabulary

WORDS = [f"word{number}" for number in range(1000)]


def clock() -> float:
    return time.perf_counter()


def processor_clock() -> float:
    """Seconds of work of all threads, as if they had shared it evenly and never waited for other programs."""
    return time.process_time() / torch.get_num_threads()


@dataclass(frozen=True)
class World:
    model: SMLSTM
    features: ImageFeatures
    sentences: list[str]


def world(preset: Preset, modulation: str, images: int, sentences: int) -> World:
    torch.manual_seed(0)
    config = preset.model.model_copy(update={"modulation": modulation})
    model = SMLSTM(config, Vocabulary.build(WORDS)).eval()
    features = ImageFeatures(
        torch.randn(images, preset.regions, config.region_width), torch.randn(images, config.context_width)
    )
    lengths = torch.randn(sentences).mul(3).add(12).round().clamp(8, 20).int().tolist()
    texts = [" ".join(WORDS[k] for k in torch.randint(0, 1000, (length,)).tolist()) for length in lengths]
    return World(model, features, texts)


class Eager:
    """The plain way: an image is repeated for all sentences, and every step does all that the equations print."""

    @torch.no_grad()
    def __init__(self, made: World, images: int = 1, hoisted: bool = False, padded: int = 0) -> None:
        self.model, self.hoisted = made.model, hoisted
        features = made.features.select(slice(0, images))
        self.features = ImageFeatures(scaled(features.regions), scaled(features.context))
        self.tokens = self.model.tokens(made.sentences)
        if padded:
            room = padded - self.tokens.ids.shape[1]
            self.tokens = Tokens(torch.nn.functional.pad(self.tokens.ids, (0, room)), self.tokens.lengths)
        vectors = self.model.embedding(self.tokens)
        self.words = self.model.words(vectors, self.tokens)
        self.said = self.model.sentence_context(vectors, self.tokens)
        self.pairs = images * len(made.sentences)

    @torch.no_grad()
    def run(self) -> Tensor:
        images = zip(self.features.regions, self.features.context, strict=True)
        return torch.stack([self._one(regions, context) for regions, context in images])

    def _one(self, regions: Tensor, context: Tensor) -> Tensor:
        model, words, count = self.model, self.words, len(self.words)
        regions, context = regions.repeat(count, 1, 1), context.repeat(count, 1)
        look = self._attention(model.image_attention, regions, context)
        listen = self._attention(model.sentence_attention, words, self.said, self.tokens.mask)
        hidden = memory = words.new_zeros(count, model.config.hidden_width)
        for _ in range(model.config.steps):
            p, q = look(hidden), listen(hidden)
            seen = model.comparison.image((p[:, None] @ regions)[:, 0])
            heard = model.comparison.sentence((q[:, None] @ words)[:, 0])
            alike = model.comparison(seen, heard)
            i, f, c, o = (model.aggregation.similarity(alike) + model.aggregation.hidden(hidden)).chunk(4, dim=1)
            memory = torch.sigmoid(f) * memory + torch.sigmoid(i) * torch.tanh(c)
            hidden = torch.sigmoid(o) * torch.tanh(memory)
        return model.aggregation.output(torch.sigmoid(model.aggregation.unit(hidden)))[:, 0]

    def _attention(
        self, attention, candidates: Tensor, context: Tensor, mask: Tensor | None = None
    ) -> Callable[[Tensor], Tensor]:
        def project() -> tuple[Tensor, Tensor]:
            own = attention.candidate(candidates)
            return own if attention.modulation == "joint" else torch.sigmoid(own), attention.context(context)

        once = project() if self.hoisted else None

        def look(hidden: Tensor) -> Tensor:
            own, others = project() if once is None else once
            others = (others + attention.hidden(hidden))[:, None]
            if attention.modulation == "joint":
                logits = attention.output(torch.sigmoid(own + others))[:, :, 0]
            else:
                logits = ((attention.output.weight[0] * torch.tanh(others)) @ own.transpose(1, 2))[:, 0]
            return torch.softmax(logits if mask is None else logits.masked_fill(~mask, -torch.inf), dim=1)

        return look


class Bare:
    """The matrix products that no way of scoring gated attention can avoid, on a tile of the engine's size."""

    def __init__(self, model: SMLSTM, regions: int, words: int = 12, dtype: torch.dtype = torch.float32) -> None:
        def random(*shape: int) -> Tensor:
            return torch.randn(shape).to(dtype)

        config = model.config
        self.h, self.s, self.a, self.steps = (
            config.hidden_width,
            config.similarity_width,
            config.attention_width,
            config.steps,
        )
        self.tile = choose_tile(None, FusedScorer(model, dtype).pair_width)
        self.pairs, m, n = self.tile.pairs, self.tile.images, self.tile.sentences
        self.hidden, self.alike = random(self.pairs, self.h), random(self.pairs, self.s)
        self.weights = {
            (k, w): random(k, w)
            for k, w in ((self.s, 3 * self.h), (self.s, 4 * self.h), (self.h, 4 * self.h + 2 * self.a))
        }
        self.unit = random(self.h, self.h)
        self.sides = [
            (random(m, n, self.a), random(m, self.a, regions), random(m, regions, self.s)),
            (random(n, m, self.a), random(n, self.a, words), random(n, words, self.s)),
        ]
        self.out = {width: random(self.pairs, width) for _, width in self.weights} | {
            self.h: random(self.pairs, self.h)
        }
        self.flops = 2 * self.pairs * (
            self.s * 3 * self.h + self.h**2
            + (self.steps - 1)
            * (self.s * 4 * self.h + self.h * (4 * self.h + 2 * self.a) + (regions + words) * (self.a + self.s))
        )  # fmt: skip

    def run(self) -> None:
        def product(x: Tensor, width: int) -> None:
            torch.mm(x, self.weights[x.shape[1], width], out=self.out[width])

        product(self.alike, 3 * self.h)
        for _ in range(self.steps - 1):
            product(self.hidden, 4 * self.h + 2 * self.a)
            product(self.alike, 4 * self.h)
            for query, keys, candidates in self.sides:
                (query @ keys) @ candidates
        torch.mm(self.hidden, self.unit, out=self.out[self.h])


def best(jobs: dict[str, tuple[int, Callable[[], object]]], seconds: float) -> dict[str, float]:
    """Pairs a second of each job, the best of rounds in which they take turns, about so long altogether."""
    rates = dict.fromkeys(jobs, 0.0)
    end = time.perf_counter() + seconds
    rounds = 0
    while rounds < 2 or time.perf_counter() < end:
        for name, (pairs, job) in jobs.items():
            start = clock()
            job()
            rates[name] = max(rates[name], pairs / (clock() - start))
        rounds += 1
    return rates


def engine(made: World, precision: str = "float32") -> Callable[[], object]:
    with torch.no_grad():
        images, sentences = made.model.encode_images(made.features), made.model.encode_sentences(made.sentences)
    return lambda: score_all(made.model, images, sentences, precision=precision)


def square_product(precision: str) -> Callable[[], object]:
    """A large square product, the measure of what the machine can do: 2 x 2048^3 operations."""
    x, y, out = (torch.randn(2048, 2048).to(getattr(torch, precision)) for _ in range(3))
    return lambda: torch.mm(x, y, out=out)


def precisions() -> list[str]:
    """What is measured; the last is what `auto` takes."""
    native = choose_precision("auto", torch.device("cpu")) == torch.bfloat16
    return ["float32", "bfloat16"] if native else ["float32"]


def goal(name: str, value: float, least: float, unit: str) -> None:
    print(f"  {name}: {value:.2f}{unit} (goal {least:g}{unit}: {'met' if value >= least else 'MISSED'})")


def paper_size(seconds: float) -> None:
    print("paper's size: I 196, F 512, D 4096, 8 to 20 words, H = A = S = 1024, T 3")
    jobs: dict[str, tuple[int, Callable[[], object]]] = {}
    for modulation in ("gated", "joint"):
        made = world(paper(), modulation, 32, 64)
        baselines = {"eager": Eager(made), "padded": Eager(made, padded=50), "hoisted": Eager(made, hoisted=True)}
        ours = score_all(made.model, made.features.select(slice(0, 1)), made.sentences, precision="float32")
        difference = (baselines["eager"].run() - torch.from_numpy(ours)).abs().max()
        print(f"  {modulation}: largest difference from the eager loop {difference:.1e}")
        for name, baseline in baselines.items():
            jobs[f"{modulation} {name}"] = (baseline.pairs, baseline.run)
        for precision in precisions():
            jobs[f"{modulation} {precision}"] = (32 * 64, engine(made, precision))
    for precision in precisions():
        bare = Bare(made.model, regions=196, dtype=getattr(torch, precision))
        jobs[f"bare {precision}"] = (bare.pairs, bare.run)
    rates = best(jobs, seconds)
    for name, rate in rates.items():
        print(f"  {name:16} {rate:10,.1f} pairs/s")
    ours = precisions()[-1]
    for modulation, least in (("gated", 30), ("joint", 10)):
        rate = rates[f"{modulation} {ours}"]
        goal(f"{modulation} / eager loop", rate / rates[f"{modulation} eager"], least, "x")
        for name in ("padded", "hoisted"):
            print(f"    / {name} loop: {rate / rates[f'{modulation} {name}']:.1f}x")
    for precision in precisions():
        rate = rates[f"bare {precision}"]
        print(f"  {precision} products alone / gated eager loop: {rate / rates['gated eager']:.1f}x")
        goal(f"gated {precision} / bare products", 100 * rates[f"gated {precision}"] / rate, 60, "%")
    if ours == "float32":
        print("  bfloat16: not native on this CPU, `auto` takes float32")


def linearity(seconds: float) -> None:
    print("cost against M x N (compact size)")
    jobs = {}
    for images, sentences in ((64, 128), (64, 512), (256, 512)):
        pairs = images * sentences
        jobs[f"{images} x {sentences}"] = (pairs, engine(world(compact(regions=100), "gated", images, sentences)))
    rates = best(jobs, seconds)
    for name, (pairs, _) in jobs.items():
        print(f"  {name:9} {pairs:7,} pairs: {1e6 / rates[name]:.1f} us a pair")


def compact_size(seconds: float) -> None:
    print("compact size: 100 regions of 1280, H = A = 256, S = 512, T 3")
    jobs = {}
    for precision in precisions():
        for modulation in ("joint", "gated"):
            made = world(compact(regions=100), modulation, 64, 512)
            jobs[f"{modulation} {precision}"] = (64 * 512, engine(made, precision))
        bare = Bare(made.model, regions=100, dtype=getattr(torch, precision))
        jobs[f"bare {precision}"] = (bare.pairs, bare.run)
        jobs[f"peak {precision}"] = (2 * 2048**3, square_product(precision))
    few = world(compact(regions=100), "gated", 128, 1024)
    with torch.no_grad():
        images, sentences = few.model.encode_images(few.features), few.model.encode_sentences(few.sentences)
    chosen = torch.rand(128, 1024).topk(102, dim=1).indices  # a tenth
    pairs = torch.stack([torch.arange(128)[:, None].expand_as(chosen), chosen], 2).flatten(0, 1).numpy()
    ours = precisions()[-1]
    jobs["chosen"] = (len(pairs), lambda: score_pairs(few.model, images, sentences, pairs, precision=ours))
    rates = best(jobs, seconds)
    chosen = rates.pop("chosen")
    peaks = {precision: rates.pop(f"peak {precision}") for precision in precisions()}
    for name, rate in rates.items():
        print(f"  {name:14} {rate:9,.0f} pairs/s; 1000 x 5000 in {5e6 / rate / 60:.1f} min")
    print(
        f"  chosen pairs, as in a cascade: {chosen:,.0f} pairs/s, {chosen / rates[f'gated {ours}']:.0%} of the grid's"
    )
    for precision, peak in peaks.items():
        share = rates[f"gated {precision}"] * bare.flops / bare.pairs / peak
        print(f"  {precision} product peak {peak / 1e9:.0f} GFLOP/s; gated runs at {share:.0%} of it")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--seconds", type=float, default=25, help="for the parts after the first, which takes twice as long"
    )
    parser.add_argument("--processor-time", action="store_true", help="count work, not time: for a busy machine")
    options = parser.parse_args()
    seconds = options.seconds
    if options.processor_time:
        globals()["clock"] = processor_clock
    unit = "processor time" if options.processor_time else "wall-clock time"
    print(f"{unit}, {torch.get_num_threads()} threads, load {os.getloadavg()[0]:.1f}")
    paper_size(2 * seconds)
    compact_size(seconds)
    linearity(seconds)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"peak memory of the whole run {memory:.2f} GiB; load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
