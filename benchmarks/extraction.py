"""Photos per second from file to store: ours against eager torch of the same network and against CLIP's ViT-B/32.

    python benchmarks/extraction.py [FOLDER] [--photos N] [--settings lite0:7,lite2:14]

Every case runs in a process of its own, so that peak memory is its own; the rivals are

- eager torch: the published reference network in a plain loop (decode, squash, batches of 8, store);
- CLIP: an image tower of ViT-B/32's shape (random weights: speed does not depend on them) in ONNX Runtime on all
  cores, the usual preprocessing, the next batch decoded in a thread while the last one runs.
"""

import argparse
import json
import logging
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import nn

from smlstm.data import FeatureSpec, FeatureStore
from smlstm.vision.backbones import load_backbone
from smlstm.vision.backbones.efficientnet_lite import find_weights
from smlstm.vision.extract import Extractor
from smlstm.vision.runtime import usable_cores

SETTINGS = "lite0:7,lite0:10,lite0:14,lite1:7,lite1:10,lite1:14,lite2:7,lite2:10,lite2:14"
WARM_UP = 8
BATCH = 8

Run = Callable[[list[Path]], None]


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

    def run(paths: list[Path]) -> None:
        for batch in extractor.extract((path.name, path) for path in paths):
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

    def run(paths: list[Path]) -> None:
        with torch.inference_mode():
            for some in batches(paths):
                pixels = torch.from_numpy(np.stack([squashed(path) for path in some]))
                cells = network.extract_features((pixels.permute(0, 3, 1, 2).float() - 127) / 128)
                regions = cells.flatten(2).transpose(1, 2)
                store.append([path.name for path in some], regions.numpy(), regions.mean(1).numpy())

    return run


class VitB32(nn.Module):
    """An image tower of the shape of CLIP's ViT-B/32."""

    def __init__(self, width: int = 768, layers: int = 12, heads: int = 12, patch: int = 32, size: int = 224):
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch, bias=False)
        self.token = nn.Parameter(torch.randn(1, 1, width) * 0.02)
        self.places = nn.Parameter(torch.randn(1, (size // patch) ** 2 + 1, width) * 0.02)
        self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
        self.layers = nn.ModuleList(VitLayer(width, heads) for _ in range(layers))
        self.projection = nn.Linear(width, 512, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2)  # B, 49, width
        x = self.before(torch.cat([self.token.expand(len(x), -1, -1), x], 1) + self.places)
        for layer in self.layers:
            x = layer(x)
        return self.projection(self.after(x[:, 0]))


class VitLayer(nn.Module):
    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, tokens, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, tokens, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        weights = torch.softmax(q @ k.transpose(-1, -2) * (width // self.heads) ** -0.5, -1)
        x = x + self.out((weights @ v).transpose(1, 2).reshape(batch, tokens, width))
        y = self.up(self.norm2(x))
        return x + self.down(y * torch.sigmoid(1.702 * y))  # CLIP's approximation of GELU


def export_vit(file: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logging.getLogger("torch.onnx").setLevel(logging.ERROR)
        program = torch.onnx.export(VitB32().eval(), (torch.zeros(BATCH, 3, 224, 224),), dynamo=True, verbose=False)
    program.save(file)


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

    def run(paths: list[Path]) -> None:
        with ThreadPoolExecutor(1) as pool:
            for some, pixels in ahead(pool, prepared_batch, batches(paths)):
                (vectors,) = session.run(None, {entry.name: pixels})
                vectors = vectors[: len(some)]
                store.append([path.name for path in some], vectors[:, None], vectors)

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


def measure(case: str, photos: Path, count: int) -> dict[str, float]:
    """Run one case in this process."""
    paths = sorted(path for path in photos.iterdir() if path.is_file())[: count + WARM_UP]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        kind, *setting = case.split(":")
        if kind == "clip":
            run = clip(Path(setting[0]), folder)
        elif kind == "eager":
            run = eager(setting[0], int(setting[1]), folder)
        else:
            run = ours(setting[0], int(setting[1]), setting[2] if len(setting) > 2 else "auto", folder)
        run(paths[:WARM_UP])
        wall, cpu = time.perf_counter(), time.process_time()
        run(paths[WARM_UP:])
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        stored = sum(path.stat().st_size for path in (folder / "store").iterdir())
    done = len(paths) - WARM_UP
    return {
        "photos_per_second": done / wall,
        "photos_per_cpu_second": done / cpu,
        "peak_megabytes": peak_megabytes(),
        "bytes_per_photo": stored / len(paths),
    }


def peak_megabytes() -> float:
    """Read this process's own peak; what `resource` says begins with the parent's."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM")), float("nan"))


def in_own_process(case: str, photos: Path, count: int) -> dict[str, float]:
    command = [sys.executable, "-W", "ignore", __file__, str(photos), "--photos", str(count), "--case", case]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, help="a folder of photos; without one they are generated")
    parser.add_argument("--photos", type=int, default=96, help="how many to measure on")
    parser.add_argument("--settings", default=SETTINGS, help="model:grid, with commas between")
    parser.add_argument("--runtime", default="auto")
    parser.add_argument("--case", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.case:
        print(json.dumps(measure(given.case, given.folder, given.photos)))
        return
    with tempfile.TemporaryDirectory() as name:
        photos = given.folder or Path(name)
        if given.folder is None:
            generated(photos, given.photos + WARM_UP)
        vit = Path(name) / "vit.onnx"
        export_vit(vit)
        print(f"{given.photos} photos of {given.folder.name if given.folder else 'noise'}, {usable_cores()} cores")
        print(f"{'':24}{'photos/s':>10}{'of eager':>10}{'of CLIP':>10}{'a CPU s':>9}{'peak MB':>9}{'bytes/photo':>13}")
        for setting in given.settings.split(","):
            model, grid = setting.split(":")
            title = f"{model} {int(grid) * 32} px"
            # Side by side for every setting, so that a machine that is busy for a while does not favour one of them.
            fewer = min(given.photos, 32)
            plain = in_own_process(f"eager:{setting}", photos, fewer)
            mine = in_own_process(f"ours:{setting}:{given.runtime}", photos, given.photos)
            rival = in_own_process(f"clip:{vit}", photos, fewer)
            show("CLIP ViT-B/32, ONNX", rival)
            show(f"{title}, eager torch", plain)
            show(f"{title}, ours", mine, plain, rival)


def show(name: str, found: dict[str, float], *rivals: dict[str, float]) -> None:
    ratios = "".join(f"{found['photos_per_second'] / rival['photos_per_second']:9.2f}x" for rival in rivals)
    print(
        f"{name:24}{found['photos_per_second']:10.1f}{ratios:20}{found['photos_per_cpu_second']:9.1f}"
        f"{found['peak_megabytes']:9.0f}{found['bytes_per_photo']:13,.0f}",
        flush=True,
    )


if __name__ == "__main__":
    main()
