"""Sixty everyday questions to a library of dev photos: how many of the first five photos are right?

    python benchmarks/queries.py DATASET [DATASET ...] [--model PAIR ...]

The dev photos of all datasets become one library, which is indexed and searched as a user's is. A photo is right if one
of its captions has the words that the question asks for, any of each group below. Neither all nor only such are:
captions leave things out, and "a man swings a bat" counts for "kid on a swing"; it is the same for all models that are
compared. Precision at 5 counts the first five, or as many as are right at all if those are fewer. Questions of which no
photo is right are left out and said. Several models are compared on the same photos.
"""

import argparse
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from smlstm import Library
from smlstm.data import Record, open_dataset
from smlstm.text import tokenise

QUESTIONS = {
    "dog": "dog dogs puppy puppies",
    "a black dog": "dog dogs puppy & black",
    "two dogs playing": "dogs & two",
    "a dog running on the beach": "dog dogs & beach sand shore",
    "dog in the snow": "dog dogs & snow snowy",
    "dog jumping over a hurdle": "dog dogs & hurdle bar obstacle hurdles pole",
    "dog with a ball": "dog dogs puppy & ball",
    "dog swimming": "dog dogs & water swimming swims swim pool",
    "cat": "cat cats kitten kitty",
    "a cat sleeping": "cat cats kitten & sleeping laying lying asleep sleeps lays resting",
    "horse": "horse horses",
    "elephants": "elephant elephants",
    "giraffe": "giraffe giraffes",
    "zebras grazing": "zebra zebras",
    "cows in a field": "cow cows cattle",
    "sheep": "sheep lamb lambs",
    "bird": "bird birds seagull duck ducks pigeon pigeons",
    "a bear": "bear bears",
    "baby": "baby toddler infant",
    "children playing": "children kids boys girls child & playing play plays",
    "a little girl in a pink dress": "girl girls & pink",
    "a boy jumping": "boy boys & jumping jumps jump leaping air",
    "kid on a swing": "swing swings swinging",
    "a group of people": "people crowd group",
    "man with sunglasses": "man men guy & sunglasses",
    "an old man": "man & old older elderly",
    "woman in a red shirt": "woman lady women girl & red",
    "a man riding a bike": "man bicyclist cyclist biker person bmx & bike bicycle riding rides",
    "mountain biking": "bike bicycle biker biking & mountain dirt trail hill woods forest",
    "motorcycle": "motorcycle motorcycles motorbike dirtbike",
    "skateboard trick": "skateboard skateboarder skateboarding skateboards skater",
    "surfing": "surf surfing surfer surfboard surfs wave surfers",
    "snowboarder": "snowboard snowboarder snowboarding snowboards snowboarders",
    "skiing": "ski skiing skier skis skiers",
    "rock climbing": "climbing climber climbs climb & rock cliff wall mountain rocks",
    "soccer": "soccer",
    "football players": "football",
    "basketball": "basketball",
    "baseball player": "baseball",
    "tennis": "tennis",
    "kite": "kite kites",
    "frisbee": "frisbee",
    "swimming pool": "pool",
    "boat on the water": "boat boats sailboat canoe kayak ship raft",
    "mountains": "mountain mountains",
    "sunset": "sunset dusk sunrise",
    "waterfall": "waterfall",
    "fountain": "fountain fountains",
    "train": "train trains",
    "bus on the street": "bus buses",
    "airplane": "airplane plane jet airplanes planes",
    "red car": "car cars & red",
    "traffic light": "traffic stoplight & light lights signal stoplight",
    "pizza": "pizza",
    "cake": "cake cakes cupcake",
    "birthday": "birthday",
    "plate of food": "plate plates dish & food meal vegetables sandwich broccoli meat",
    "kitchen": "kitchen",
    "laptop on a desk": "laptop laptops computer computers",
    "bathroom": "bathroom toilet",
}
AT = 5


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("datasets", type=Path, nargs="+")
    parser.add_argument(
        "--model", type=Path, action="append", help="a pair (default: the shipped one); may be repeated"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        photos = Path(folder) / "photos"
        captions = {str(path): record.captions for path, record in copied(options.datasets, photos)}
        print(f"{len(captions)} photos", flush=True)
        models: Sequence[Path | None] = options.model or [None]
        right = {question: relevant(names, captions) for question, names in QUESTIONS.items()}
        unknown = [question for question, found in right.items() if not found]
        table = Table(
            "question", "right photos", *(f"model {number}" for number in range(1, len(models) + 1)), box=None
        )
        found = []
        for number, model in enumerate(models):
            library = Library(Path(folder) / f"library-{number}", model=model)
            library.index(photos)
            found.append({q: precision(library, q, right[q]) for q in QUESTIONS if q not in unknown})
        for question in found[0]:
            shares = (f"{each[question]:.0%}" for each in found)
            table.add_row(question, str(len(right[question])), *shares)
        table.add_row("mean", "", *(f"{sum(each.values()) / len(each):.1%}" for each in found))
        Console(width=100).print(table)
        if unknown:
            print(f"left out, since no photo is right: {', '.join(unknown)}")


def copied(datasets: Sequence[Path], folder: Path) -> list[tuple[Path, Record]]:
    """Dev photos of all datasets, copied into a folder."""
    found = []
    for dataset in datasets:
        for record in open_dataset(dataset).records:
            if record.split == "dev" and record.captions:
                place = folder / dataset.name / f"{len(found):05}-{record.path.name}"
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(record.path, place)
                found.append((place.resolve(), record))
    return found


def relevant(names: str, captions: dict[str, tuple[str, ...]]) -> set[str]:
    """Photos of which a caption has a word of each group."""
    groups = [set(group.split()) for group in names.split("&")]
    return {
        path
        for path, said in captions.items()
        if any(all(not group.isdisjoint(tokenise(caption)) for group in groups) for caption in said)
    }


def precision(library: Library, question: str, right: set[str]) -> float:
    """The share of right photos among the first."""
    wanted = min(AT, len(right))
    return sum(str(match.path) in right for match in library.search(question, k=wanted)) / wanted


if __name__ == "__main__":
    main()
