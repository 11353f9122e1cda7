"""Photos per second from file to store: ours against eager torch of the same network and against CLIP's ViT-B/32.

    python benchmarks/extraction.py [FOLDER] [--photos 64] [--rounds 5] [--settings lite0:7,lite2:10]

The baselines are

- eager torch: the published reference network in a plain loop (decode, squash, batches of 8, store);
- CLIP: an image tower of ViT-B/32's shape in ONNX Runtime on all cores, the usual preprocessing, the next batch decoded
  in a thread while the last one runs.

Every case has a process of its own, so that peak memory is its own, and all get the same photos. They take turns, round
by round, so that a machine that is busy for a while favours none; figures are medians over the rounds, ratios
medians of the rounds' own ratios. The goals are 5 times eager torch, and 1.5 times CLIP at the shipped setting.
A setting that can run in 8 bits has a row for that too, and a line on how far its features are from float32's.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from smlstm.data import FeatureSpec, FeatureStore
from smlstm.vision import int8, read_photo
from smlstm.vision.backbones import load_backbone
from smlstm.vision.backbones.efficientnet_lite import find_weights
from smlstm.vision.extract import Extractor
from smlstm.vision.runtime import EightBitRunner, installed_runtimes, make_runner, usable_cores
from vit_b32 import export_vit

SETTINGS, SHIPPED = "lite0:7,lite2:10", "lite2:10"
GOAL_EAGER, GOAL_CLIP = 5.0, 1.5
WARM_UP = 8
COMPARED = 32
BATCH = 8

# Extracts some photos into a store, under keys that begin with the given word.
Run = Callable[[list[Path], str], None]


def generated(folder: Path, count: int) -> None:
    """Write JPEGs of the size that datasets have, with texture enough that decoding costs what it does in life."""
    rng = np.random.default_rng(0)
    for index in range(count):
        rough = Image.fromarray(rng.integers(0, 256, (40, 54, 3), dtype=np.uint8)).resize((500, 375))
        grain = rng.normal(0, 8, (375, 500, 1))
        pixels = np.clip(np.asarray(rough, float) + grain, 0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(folder / f"{index:04}.jpg", quality=90)


def store_at(folder: Path, name: str, regions: int, region_width: int, context_width: int) -> FeatureStore:
    return FeatureStore.open(folder / "store", FeatureSpec(name, "-", "-", regions, region_width, context_width))


def ours(model: str, grid: int, runtime: str, folder: Path) -> Run:
    backbone = load_backbone(f"efficientnet-{model}", grid=grid)
    extractor = Extractor(backbone, runtime=runtime)
    store = store_at(folder, model, backbone.regions, backbone.region_width, backbone.context_width)

    def run(paths: list[Path], word: str) -> None:
        for batch in extractor.extract((word + path.name, path) for path in paths):
            store.append(batch.keys, batch.regions, batch.context)

    return run


def eager(model: str, grid: int, folder: Path) -> Run:
    from efficientnet_lite_pytorch import EfficientNet  # noqa: PLC0415

    name = f"efficientnet-{model}"
    side = grid * 32
    network = EfficientNet.from_name(name, image_size=side).eval()
    network.load_state_dict(torch.load(find_weights(name), weights_only=True))
    store = store_at(folder, model, grid * grid, 1280, 1280)

    def squashed(path: Path) -> np.ndarray:
        with Image.open(path) as image:
            return np.array(image.convert("RGB").resize((side, side), Image.Resampling.BICUBIC))

    def run(paths: list[Path], word: str) -> None:
        with torch.inference_mode():
            for some in batches(paths):
                pixels = torch.from_numpy(np.stack([squashed(path) for path in some]))
                cells = network.extract_features((pixels.permute(0, 3, 1, 2).float() - 127) / 128)
                regions = cells.flatten(2).transpose(1, 2)
                store.append([word + path.name for path in some], regions.numpy(), regions.mean(1).numpy())

    return run


def clip(file: Path, folder: Path) -> Run:
    import onnxruntime  # noqa: PLC0415

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = usable_cores()
    session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    (entry,) = session.get_inputs()
    mean = np.array([0.48145466, 0.4578275, 0.40821073], np.float32)
    deviation = np.array([0.26862954, 0.26130258, 0.27577711], np.float32)
    store = store_at(folder, "vit", 1, 512, 512)

    def prepared(path: Path) -> np.ndarray:
        with Image.open(path) as image:
            rgb = image.convert("RGB")
        scale = 224 / min(rgb.size)
        wide, high = (max(224, round(side * scale)) for side in rgb.size)
        rgb = rgb.resize((wide, high), Image.Resampling.BICUBIC)
        left, top = (wide - 224) // 2, (high - 224) // 2
        pixels = np.asarray(rgb.crop((left, top, left + 224, top + 224)), np.float32) / 255
        return ((pixels - mean) / deviation).transpose(2, 0, 1)

    def prepared_batch(some: list[Path]) -> tuple[list[Path], np.ndarray]:
        pixels = np.zeros((BATCH, 3, 224, 224), np.float32)
        pixels[: len(some)] = [prepared(path) for path in some]
        return some, pixels

    def run(paths: list[Path], word: str) -> None:
        with ThreadPoolExecutor(1) as pool:
            for some, pixels in ahead(pool, prepared_batch, batches(paths)):
                (vectors,) = session.run(None, {entry.name: pixels})
                vectors = vectors[: len(some)]
                store.append([word + path.name for path in some], vectors[:, None], vectors)

    return run


def batches(paths: list[Path]) -> Iterator[list[Path]]:
    remaining = iter(paths)
    while some := list(islice(remaining, BATCH)):
        yield some


def ahead(pool: ThreadPoolExecutor, work: Callable, items: Iterator) -> Iterator:
    """Map items, always one ahead of the consumer."""
    coming = None
    for item in items:
        following = pool.submit(work, item)
        if coming is not None:
            yield coming.result()
        coming = following
    if coming is not None:
        yield coming.result()


def work(case: str, folder: Path, count: int) -> None:
    """Be one case: measure a round for every line of stdin, and answer it with a line of JSON."""
    paths = photos_of(folder)[:count]
    with tempfile.TemporaryDirectory() as name:
        kind, *setting = case.split(":")
        if kind == "clip":
            run = clip(Path(setting[0]), Path(name))
        elif kind == "eager":
            run = eager(setting[0], int(setting[1]), Path(name))
        else:
            run = ours(setting[0], int(setting[1]), setting[2], Path(name))
        run(paths[:WARM_UP], "warm/")
        for number, _ in enumerate(sys.stdin, start=1):
            wall, cpu = time.perf_counter(), time.process_time()
            run(paths, f"{number}/")
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
            stored = sum(path.stat().st_size for path in (Path(name) / "store").iterdir())
            answer = {
                "photos_per_second": len(paths) / wall,
                "photos_per_cpu_second": len(paths) / cpu,
                "peak_megabytes": peak_megabytes(),
                "bytes_per_photo": stored / (len(paths) * number + len(paths[:WARM_UP])),
            }
            print(json.dumps(answer), flush=True)


def photos_of(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_file())


def peak_megabytes() -> float:
    """Read this process's own peak; what `resource` says begins with the parent's."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM")), float("nan"))


class Case:
    """A case in a process of its own, which measures a round when it is asked to."""

    def __init__(self, case: str, photos: Path, count: int):
        self.name = case
        self.rounds: list[dict[str, float]] = []
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 (lives as long as its process)
        command = [sys.executable, "-W", "ignore", __file__, str(photos), "--photos", str(count), "--case", case]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, text=True
        )

    def measure(self) -> None:
        pipe: Any = self._process
        try:
            pipe.stdin.write("\n")
            pipe.stdin.flush()
        except BrokenPipeError:
            pass
        answer = pipe.stdout.readline()
        if not answer:
            self._errors.seek(0)
            sys.exit(f"the case {self.name} failed with code {pipe.wait()}:\n{self._errors.read()}")
        self.rounds.append(json.loads(answer))

    def close(self) -> None:
        self._process.communicate()

    def median(self, what: str) -> float:
        return statistics.median(found[what] for found in self.rounds)

    def times(self, baseline: "Case") -> float:
        pairs = zip(self.rounds, baseline.rounds, strict=True)
        return statistics.median(mine["photos_per_second"] / theirs["photos_per_second"] for mine, theirs in pairs)

    def show(self, title: str, *baselines: "Case") -> None:
        speeds = [found["photos_per_second"] for found in self.rounds]
        spread = f"{min(speeds):.1f}-{max(speeds):.1f}"
        ratios = "".join(f"{self.times(baseline):9.2f}x" for baseline in baselines)
        print(
            f"{title:26}{self.median('photos_per_second'):10.1f}{spread:>14}{ratios:20}"
            f"{self.median('photos_per_cpu_second'):9.1f}{self.median('peak_megabytes'):9.0f}"
            f"{self.median('bytes_per_photo'):13,.0f}",
            flush=True,
        )


def verdict(name: str, found: float, goal: float) -> str:
    return f"goal: {name} at least {goal:g}x, measured {found:.2f}x: {'met' if found >= goal else 'MISSED'}"


def compare(setting: str, given: argparse.Namespace, photos: Path, vit: Path) -> list[str]:
    """Measure one setting against both baselines; the verdicts on its goals."""
    names = [f"ours:{setting}:{given.runtime}", f"eager:{setting}", f"clip:{vit}"]
    if has_eight_bits(setting) and given.runtime != EightBitRunner.name:
        names.append(f"ours:{setting}:{EightBitRunner.name}")
    cases = [Case(name, photos, given.photos) for name in names]
    for _ in range(given.rounds):
        for case in cases:
            case.measure()
    for case in cases:
        case.close()
    mine, plain, baseline, *rounded = cases
    model, grid = setting.split(":")
    title = f"{model} {int(grid) * 32} px"
    baseline.show("CLIP ViT-B/32, ONNX")
    plain.show(f"{title}, eager torch")
    mine.show(f"{title}, ours", plain, baseline)
    for case in rounded:
        case.show(f"{title}, 8 bits", plain, baseline)
        regions, context = error_of_eight_bits(setting, photos_of(photos)[: min(COMPARED, given.photos)])
        print(
            f"{'':4}8 bits are {case.times(mine):.2f}x float32; off by {regions:.1%} of the mean size in regions, "
            f"{context:.1%} in the context"
        )
    verdicts = [verdict(f"{title}: of eager torch", mine.times(plain), GOAL_EAGER)]
    verdicts += [verdict(f"{title}, 8 bits: of eager torch", case.times(plain), GOAL_EAGER) for case in rounded]
    if setting == given.shipped:
        verdicts.append(verdict(f"{title}: of CLIP ViT-B/32", mine.times(baseline), GOAL_CLIP))
    return verdicts


def has_eight_bits(setting: str) -> bool:
    model, _ = setting.split(":")
    return f"efficientnet-{model}" == int8.BACKBONE and EightBitRunner.name in installed_runtimes()


def error_of_eight_bits(setting: str, paths: list[Path]) -> list[float]:
    """Mean difference from float32 over the mean size, of regions and of context."""
    model, grid = setting.split(":")
    backbone = load_backbone(f"efficientnet-{model}", grid=int(grid))
    pixels = np.stack([backbone.preprocess(read_photo(path, at_least=backbone.input_size)) for path in paths])
    exact, rough = (make_runner(backbone, name).run(pixels) for name in ("openvino", EightBitRunner.name))
    return [float(abs(b - a).mean() / abs(a).mean()) for a, b in zip(exact, rough, strict=True)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, help="a folder of photos; without one they are generated")
    parser.add_argument("--photos", type=int, default=64, help="how many in a round, for every case")
    parser.add_argument("--rounds", type=int, default=5, help="how many rounds, at least 3")
    parser.add_argument("--settings", default=SETTINGS, help="model:grid, with commas between")
    parser.add_argument("--shipped", default=SHIPPED, help="the setting that the shipped model uses")
    parser.add_argument("--runtime", default="auto")
    parser.add_argument("--case", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.case:
        work(given.case, given.folder, given.photos)
        return
    given.rounds = max(3, given.rounds)
    with tempfile.TemporaryDirectory() as name:
        photos, vit = given.folder or Path(name) / "photos", Path(name) / "vit.onnx"
        if given.folder is None:
            photos.mkdir()
            generated(photos, given.photos)
        given.photos = min(given.photos, len(photos_of(photos)))
        export_vit(vit, BATCH)
        kind = given.folder.name if given.folder else "noise"
        print(f"{given.photos} photos of {kind} in each of {given.rounds} rounds, {usable_cores()} cores; medians")
        columns = {"photos/s": 10, "range": 14, "of eager": 10, "of CLIP": 10, "a CPU s": 9, "peak MB": 9, "bytes": 13}
        print(" " * 26 + "".join(f"{title:>{width}}" for title, width in columns.items()))
        verdicts = [each for setting in given.settings.split(",") for each in compare(setting, given, photos, vit)]
    print("\n".join(verdicts))


if __name__ == "__main__":
    main()
