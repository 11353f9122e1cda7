"""Find real photographs by sentences with the shipped model, and see where it looked.

    python examples/photos.py [FOLDER]

The photographs come inside well-known packages: scikit-image, scikit-learn, matplotlib. Most are CC0 or in the public
domain; who passes the page on looks up the others first (china.jpg and flower.jpg are CC BY 2.0). Takes seconds; writes
a page with what was found, and leaves the library, so that `smlstm search --library FOLDER/library` and
`smlstm serve --library FOLDER/library` go on from here.
"""

import importlib.util
import shutil
import sys
from dataclasses import replace
from pathlib import Path

from smlstm import Library
from smlstm.cli.library_options import IndexProgress, say_what_to_know
from smlstm.explain.html import gallery_page
from smlstm.pair.calibration import UNLIKELY

PHOTOS = {
    "skimage": [
        "data/astronaut.png", "data/camera.png", "data/chelsea.png", "data/coffee.png", "data/coins.png",
        "data/grass.png", "data/brick.png", "data/moon.png", "data/motorcycle_left.png", "data/rocket.jpg",
        "data/hubble_deep_field.jpg", "data/clock_motion.png",
    ],
    "sklearn": ["datasets/images/china.jpg", "datasets/images/flower.jpg"],
    "matplotlib": ["mpl-data/sample_data/grace_hopper.jpg"],
}  # fmt: skip
SENTENCES = (
    "a close up of a cat",
    "a cup of coffee with a spoon on a table",
    "a woman in an orange space suit",
    "a man taking a picture with a camera on a tripod",
    "motorcycles parked in a garage",
    "a pink flower in a garden",
    "a large temple building with people in front of it",
    "an elderly lady in uniform smiling at the camera",
)
SHOWN, EXPLAINED = 3, 2


def collect(folder: Path) -> int:
    """Copy the photographs out of the packages; returns how many there are."""
    folder.mkdir(parents=True, exist_ok=True)
    for package, names in PHOTOS.items():
        found = importlib.util.find_spec(package)
        if found is None or found.origin is None:
            sys.exit(f'{package} is missing: pip install "smlstm[demo]"')
        for name in names:
            source = Path(found.origin).parent / name
            if source.exists():  # packages come and go with their pictures
                shutil.copyfile(source, folder / source.name)
    return len(list(folder.iterdir()))


def main() -> None:
    """Collect, index, search, show."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "demo").resolve()
    count = collect(folder / "photos")
    library = Library(folder / "library")
    with IndexProgress() as progress:
        library.index(folder / "photos", watch=progress)
    print(f"{count} photographs, {len(SENTENCES)} sentences")
    explanations = []
    for sentence in SENTENCES:
        found = library.search(sentence, k=SHOWN)
        print(f'\n"{sentence}"')
        say_what_to_know(library.pair, found.unknown, found.read_as)
        for match in found:
            print(f"  {match.probability:6.1%}  {match.path.name}")
        if (found[0].probability or 0) < UNLIKELY:
            print("  none of them is likely to match")
        matches = list(found)[:EXPLAINED]
        for match, each in zip(matches, library.explain(matches, sentence), strict=True):
            explanations.append(replace(each, name=f"{match.path.name}, match probability {match.probability:.0%}"))
    page = folder / "index.html"
    page.write_text(gallery_page(explanations, "Photographs found by sentences, and where the model looked"), "utf-8")
    print(f"\npage: {page}")
    print(f'more:  smlstm search "a night sky full of stars" --library {folder / "library"}')


if __name__ == "__main__":
    main()
