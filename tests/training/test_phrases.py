"""Learning from phrases, and from their boxes."""

import csv
import json
import math

import numpy as np
import pytest
import torch

from smlstm.matching.batch import ImageFeatures, Saliency, Tokens
from smlstm.model import ObjectiveConfig
from smlstm.text import Vocabulary
from smlstm.training import read_config, train
from smlstm.training.augmentation import cover_regions
from smlstm.training.phrases import CaptionPhrases, PhraseBatch, phrase_loss
from smlstm.training.read_examples import read_examples

OBJECTIVE = ObjectiveConfig(form="contrast", temperature=0.5)


def batch(image_of, elsewhere, inside) -> PhraseBatch:
    tokens = Tokens(torch.ones(len(image_of), 1, dtype=torch.long), torch.ones(len(image_of), dtype=torch.long))
    return PhraseBatch(tokens, torch.tensor(image_of), torch.tensor(elsewhere), torch.tensor(inside))


def test_a_phrase_is_held_against_photos_that_do_not_show_it():
    scores = torch.tensor([[1.0], [3.0], [0.5]])  # three photos, one phrase of the first
    alone = phrase_loss([scores], None, batch([0], [[True, True, False]], [[False]]), OBJECTIVE)
    expected = math.log(1 + math.exp((0.5 - 1.0) / 0.5))  # the second may show it too: it does not count
    assert alone.item() == pytest.approx(expected)
    twice = phrase_loss([scores, 0 * scores], None, batch([0], [[True, True, False]], [[False]]), OBJECTIVE)
    assert twice.item() == pytest.approx((expected + math.log(2)) / 2)


def test_boxes_teach_every_step():
    maps = torch.tensor([[[0.5, 0.5], [0.1, 0.9]], [[0.3, 0.7], [0.3, 0.7]]])
    saliency = Saliency(maps, torch.ones(2, 2, 1), torch.zeros(2, 2))
    known = batch([0, 1], [[True, False], [False, True]], [[True, False], [False, False]])
    scores = torch.zeros(2, 2)
    without = phrase_loss([scores], None, known, OBJECTIVE)
    found = phrase_loss([scores], saliency, known, OBJECTIVE)
    assert (found - without).item() == pytest.approx(-(math.log(0.5) + math.log(0.1)) / 2)  # the second has no box


def test_covered_regions_are_zero_and_the_mean_is_of_the_others():
    torch.manual_seed(0)
    regions = torch.rand(3, 16, 5)
    features = ImageFeatures(regions, regions.mean(1))
    found = cover_regions(features, 0.5)
    covered = (found.regions == 0).all(2)
    assert 0.2 < covered.float().mean() < 0.8 and found.regions.shape == regions.shape
    for image in range(3):
        torch.testing.assert_close(found.context[image], regions[image][~covered[image]].mean(0))


@pytest.fixture
def marked(scenes, tmp_path):
    """Phrases and boxes for all scenes: the first word of each caption, in the left half."""
    for name in ("Annotations", "Sentences"):
        (tmp_path / "entities" / name).mkdir(parents=True)
    lines: dict[str, list[str]] = {}
    with (scenes / "captions.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            words = row["caption"].split()
            lines.setdefault(row["path"].split(".")[0], []).append(
                f"[/EN#1/other {' '.join(words[:3])}] {' '.join(words[3:])}"
            )
    box = "<bndbox><xmin>0</xmin><ymin>0</ymin><xmax>32</xmax><ymax>64</ymax></bndbox>"
    size = "<size><width>64</width><height>64</height></size>"
    for stem, captions in lines.items():
        (tmp_path / "entities" / "Sentences" / f"{stem}.txt").write_text("\n".join(captions))
        xml = f"<annotation>{size}<object><name>1</name>{box}</object></annotation>"
        (tmp_path / "entities" / "Annotations" / f"{stem}.xml").write_text(xml)
    return tmp_path / "entities"


def test_phrases_are_drawn_of_the_batchs_images(recipe, marked):
    config = read_config(recipe, [f"data.0.entities={marked}"])
    training, _, _ = read_examples(config.data)
    for side in (None, 4):
        bank = CaptionPhrases(training, side)
        tokens = bank.examples(training).encode(Vocabulary.build(training.captions, 1), 16)
        drawn = bank.draw(np.array([3, 8]), 4, tokens, 16, np.random.default_rng(0))
        assert drawn is not None and len(drawn.image_of) == 4
        assert drawn.elsewhere[torch.arange(4), drawn.image_of].all()
        assert drawn.inside.any() == (side is not None)


@pytest.mark.parametrize("boxes", [False, True])
def test_a_run_learns_from_phrases_and_says_where_it_points(recipe, marked, tmp_path, boxes):
    settings = [
        f"data.0.entities={marked}",
        "stage.smlstm.phrases=1.0",
        f"stage.smlstm.boxes={str(boxes).lower()}",
        'stage.smlstm.model.modulation="paired"',
        "stage.smlstm.model.instance_score=true",
        "stage.smlstm.epochs=3",
    ]
    config = read_config(recipe, settings)
    train(config, tmp_path / "run")
    lines = [json.loads(line) for line in (tmp_path / "run" / "smlstm" / "metrics.jsonl").read_text().splitlines()]
    pointing = [line["dev"]["pointing"] for line in lines if "dev" in line]
    assert len(pointing) == 3
    assert {"alone", "alone, step 1", "in its caption", "captions covered"} <= set(pointing[0])
    assert all(0 <= share <= 1 for share in pointing[-1].values())


@pytest.mark.parametrize(
    ("setting", "message"),
    [("stage.mnlm.phrases=1", "only an sm-lstm"), ("stage.smlstm.boxes=true", "give phrases a weight")],
)
def test_what_does_not_go_together_is_said(recipe, setting, message):
    with pytest.raises(Exception, match=message):
        read_config(recipe, [setting])
