"""The whole way on drawn scenes: compose, train, find pictures by sentences, see where the model looked.

    python examples/scenes.py [FOLDER]

Takes about two minutes on two cores. Writes a page with the pictures found and their saliency maps.
"""

import csv
import html
import sys
from base64 import b64encode
from io import BytesIO
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from rich.console import Console

from smlstm import ImageFeatures, Matcher
from smlstm.cli.train import make_display
from smlstm.data import FeatureSpec, FeatureStore
from smlstm.data.scenes import Scene, compose, patch_features
from smlstm.training import read_config, train

TRAINING, HELD_OUT, GRID = 2000, 100, 7
QUERIES = 6
SHOWN = 3
console = Console(stderr=True)


def prepare(folder: Path) -> tuple[list[Scene], ImageFeatures]:
    """Draw the scenes, and write their captions and features as training reads them."""
    console.print(f"drawing {TRAINING + HELD_OUT} scenes")
    scenes = compose(seed=1, count=TRAINING + HELD_OUT, size=112, captions=2)
    regions, context = patch_features([scene.picture for scene in scenes], grid=GRID)
    keys = [f"{number:05}.png" for number in range(len(scenes))]
    spec = FeatureSpec("patches", "none", "composed scenes", GRID * GRID, regions.shape[2], context.shape[1])
    folder.mkdir(parents=True, exist_ok=True)
    with FeatureStore.open(folder / "features", spec) as store:
        new = [number for number, key in enumerate(keys) if key not in store]
        if new:
            store.append([keys[number] for number in new], regions[new], context[new])
    with (folder / "captions.csv").open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["path", "caption", "split"])
        for number, (key, scene) in enumerate(zip(keys, scenes, strict=True)):
            split = "train" if number < TRAINING else "dev"
            table.writerows((key, caption, split) for caption in scene.captions)
    held_out = slice(TRAINING, None)
    return scenes[held_out], ImageFeatures(torch.from_numpy(regions[held_out]), torch.from_numpy(context[held_out]))


def learn(folder: Path) -> Matcher:
    """Train MNLM, then sm-LSTM from it; a second run finds the work done."""
    recipe = Path(__file__).parent.parent / "configs" / "scenes.toml"
    places = [f"data.0.dataset={folder / 'captions.csv'}", f"data.0.features={folder / 'features'}"]
    for result in train(read_config(recipe, places), folder / "run", watcher=make_display()):
        console.print(f"{result.stage}: {result.reason}")
    return Matcher.load(folder / "run" / "model")


def overlay(picture: Image.Image, saliency: torch.Tensor) -> str:
    """The picture, darkened where the model did not look, as an inline PNG."""
    grid = saliency.reshape(GRID, GRID).numpy()
    light = Image.fromarray((255 * grid / grid.max()).astype(np.uint8)).resize(picture.size, Image.Resampling.BICUBIC)
    seen = Image.composite(
        picture, Image.new("RGB", picture.size, "#101418"), light.point(lambda v: 40 + v * 215 // 255)
    )
    return inline(seen)


def inline(picture: Image.Image) -> str:
    """A picture as the address of an image."""
    file = BytesIO()
    picture.save(file, "PNG")
    return f"data:image/png;base64,{b64encode(file.getvalue()).decode()}"


def words(sentence: str, saliency: torch.Tensor, matcher: Matcher) -> str:
    """The sentence with each word as bold as it was looked at."""
    parts = [matcher.vocabulary.word(row) for row in matcher.vocabulary.encode(sentence).ids]
    strongest = saliency.max()
    return " ".join(
        f'<span style="opacity:{0.35 + 0.65 * float(share / strongest):.2f}">{html.escape(word)}</span>'
        for word, share in zip(parts, saliency.tolist(), strict=False)
    )


def main() -> None:
    """Compose, train, search, show."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "demo")
    scenes, features = prepare(folder)
    matcher = learn(folder)
    sentences = [scene.captions[0] for scene in scenes[:QUERIES]]
    with torch.no_grad():
        images, queries = matcher.encode_images(features), matcher.encode_sentences(sentences)
        scores = matcher.score(images, queries)  # M, N
        best = scores.argsort(dim=0, descending=True)[:SHOWN]  # SHOWN, N
    sections, hits = [], 0
    for n, sentence in enumerate(sentences):
        hits += int(best[0, n] == n)
        print(f'"{sentence}"')
        figures = []
        for image in best[:, n].tolist():
            right = "  <- the right one" if image == n else ""
            print(f"  {scores[image, n]:7.3f}  scene {image:3}{right}")
            with torch.no_grad():
                maps = matcher.attend(images, queries, torch.tensor([[image, n]]))
            steps = "".join(
                f'<figure><img src="{overlay(scenes[image].picture, maps.image[0, t])}" alt="step {t + 1}">'
                f"<figcaption>step {t + 1}: {words(sentence, maps.sentence[0, t], matcher)}</figcaption></figure>"
                for t in range(maps.image.shape[1])
            )
            mark = "&#10003; " if image == n else ""
            figures.append(
                f'<div class="row"><figure><img src="{inline(scenes[image].picture)}" alt="scene {image}">'
                f"<figcaption>{mark}{scores[image, n]:.3f}</figcaption></figure>{steps}</div>"
            )
        sections.append(f"<section><h2>{html.escape(sentence)}</h2>{''.join(figures)}</section>")
    page = folder / "index.html"
    page.write_text(PAGE.format(body="".join(sections)), encoding="utf-8")
    print(f"{hits} of {len(sentences)} sentences find their scene first among {len(scenes)} never seen in training")
    print(f"page: {page}")


PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>smlstm on drawn scenes</title>
<style>
body {{ font: 15px/1.4 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem;
  color-scheme: light dark }}
h2 {{ font-size: 1.05rem; margin: 2rem 0 .5rem }}
.row {{ display: flex; flex-wrap: wrap; gap: .75rem; margin-bottom: .75rem }}
figure {{ margin: 0; width: 10rem }} img {{ width: 10rem; image-rendering: pixelated }}
figcaption {{ font-size: .8rem }}
</style>
<h1>Found by a sentence</h1>
<p>Each row: a drawn scene the model had never seen, its score, and for each step the part of the picture and the
words that it looked at.</p>{body}</html>
"""

if __name__ == "__main__":
    main()
