"""Learning from phrases, and from their boxes."""

import csv
import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from smlstm.matching.batch import ImageFeatures
from smlstm.model import SMLSTM, ObjectiveConfig, SMLSTMConfig
from smlstm.model.paired import direction
from smlstm.text import Vocabulary, tokenise
from smlstm.text.word_groups import named_things
from smlstm.training import read_config, train
from smlstm.training.augmentation import cover_regions
from smlstm.training.examples import Images
from smlstm.training.phrases import CaptionPhrases, Sought, found_loss, phrase_loss, regions_in, sought_loss
from smlstm.training.read_examples import read_examples
from smlstm.training.step import BatchLoss, TrainingBatch, score_grid
from smlstm.vision.views import Part

OBJECTIVE = ObjectiveConfig(form="contrast", temperature=0.5)


def sought(image_of, elsewhere, inside) -> Sought:
    return Sought(torch.tensor(image_of), torch.tensor(elsewhere), torch.tensor(inside))


def test_a_phrase_is_held_against_photos_that_do_not_show_it():
    found = torch.tensor([[1.0], [3.0], [0.5]])  # three photos, one phrase of the first
    loss = sought_loss(found, torch.ones(1, 1), sought([0], [[True, True, False]], [[False]]), OBJECTIVE)
    expected = math.log(1 + math.exp((0.5 - 1.0) / 0.5))  # the second may show it too: it does not count
    assert loss.item() == pytest.approx(expected)


def test_boxes_teach_maps_where_they_are_known_and_tell_places_apart():
    maps = torch.tensor([[0.5, 0.5], [0.3, 0.7], [0.1, 0.9]])
    elsewhere = [[True, False], [False, True], [True, True]]
    found = torch.zeros(2, 3)
    inside = [[True, False], [False, False], [True, True]]  # the second has no box, the third fills the view
    with_boxes = sought_loss(found, maps, sought([0, 1, 0], elsewhere, inside), OBJECTIVE)
    without = sought_loss(found, maps, sought([0, 1, 0], elsewhere, [[False, False]] * 3), OBJECTIVE)
    assert (with_boxes - without).item() == pytest.approx(-math.log(0.5))


def test_boxes_are_where_the_view_shows_them():
    left_half = np.array([[0.0, 0.0, 0.5, 1.0]])
    whole = regions_in(left_half, Part(), 4).reshape(4, 4)
    assert whole[:, :2].all() and not whole[:, 2:].any()
    assert (regions_in(left_half, Part(mirrored=True), 4).reshape(4, 4) == whole[:, ::-1]).all()
    assert regions_in(left_half, Part(right=0.5), 4).all()
    assert not regions_in(left_half, Part(left=0.5), 4).any()
    zoomed = regions_in(left_half, Part(left=0.25, right=0.75), 4).reshape(4, 4)
    assert zoomed[:, :2].all() and not zoomed[:, 2:].any()


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
    """Phrases and boxes for all scenes: what each caption names first, in the left half."""
    for name in ("Annotations", "Sentences"):
        (tmp_path / "entities" / name).mkdir(parents=True)
    lines: dict[str, list[str]] = {}
    with (scenes / "captions.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            words = tokenise(row["caption"])
            first = named_things(words)[0]
            marked = f"[/EN#1/other {' '.join(words[first.first : first.last])}]"
            line = " ".join([*words[: first.first], marked, *words[first.last :]])
            lines.setdefault(row["path"].split(".")[0], []).append(line)
    box = "<bndbox><xmin>0</xmin><ymin>0</ymin><xmax>32</xmax><ymax>64</ymax></bndbox>"
    size = "<size><width>64</width><height>64</height></size>"
    for stem, captions in lines.items():
        (tmp_path / "entities" / "Sentences" / f"{stem}.txt").write_text("\n".join(captions))
        xml = f"<annotation>{size}<object><name>1</name>{box}</object></annotation>"
        (tmp_path / "entities" / "Annotations" / f"{stem}.xml").write_text(xml)
    return tmp_path / "entities"


@pytest.mark.parametrize("boxes", [False, True])
def test_phrases_are_of_the_batchs_images_and_captions(recipe, marked, boxes):
    training, _, _ = read_examples(read_config(recipe, [f"data.0.entities={marked}"]).data)
    bank = CaptionPhrases(training, boxes=boxes, limit=16)
    tokens = bank.examples(training).encode(Vocabulary.build(training.captions, 1), 16)
    images = np.array([3, 8])
    captions = np.flatnonzero(np.isin(training.image_of, images))
    row_of = np.searchsorted(images, training.image_of[captions])
    draws = np.random.default_rng(0)
    found = bank.batch(images, captions, row_of, tokens, parts=[Part(), Part()], side=4, in_captions=True, draws=draws)
    things = [len(named_things(tokenise(training.captions[caption]))) for caption in captions]
    assert sum(things) > len(captions), "all phrases were drawn"
    assert len(found.chosen) == len(captions) and (found.chosen.diff() > 0).all()
    assert found.in_captions.image_of.tolist() == np.repeat(row_of, things)[found.chosen.numpy()].tolist()
    assert len(found.alone.image_of) == len(found.tokens) == len(captions)
    for each in (found.alone, found.in_captions):
        assert each.elsewhere[torch.arange(len(each)), each.image_of].all()
    assert found.in_captions.inside.any() == boxes


@pytest.fixture
def learner(recipe, marked):
    """A small sm-LSTM of phrases, a batch of two images with their captions, and the batch's phrases."""
    training, _, _ = read_examples(read_config(recipe, [f"data.0.entities={marked}"]).data)
    vocabulary = Vocabulary.build(training.captions, 1)
    sizes = {"word_width": 8, "embedding_width": 8, "sentence_width": 8, "attention_width": 6, "hidden_width": 5}
    torch.manual_seed(0)
    model = SMLSTM(
        SMLSTMConfig(
            region_width=24, context_width=24, similarity_width=7, modulation="paired", words="phrases", **sizes
        ),
        vocabulary,
    )
    bank = CaptionPhrases(training, boxes=True, limit=16)
    images = np.array([3, 8])
    captions = np.flatnonzero(np.isin(training.image_of, images))
    row_of = np.searchsorted(images, training.image_of[captions])
    tokens = bank.examples(training).encode(vocabulary, 16, phrases=True)
    phrases = bank.batch(
        images, captions, row_of, tokens, parts=[Part()] * 2, side=4, in_captions=True, draws=np.random.default_rng(0)
    )
    said = training.encode(vocabulary, 16, phrases=True).select(captions)
    batch = TrainingBatch(
        training.images.read(images), said, torch.from_numpy(row_of), torch.from_numpy(images), phrases
    )
    return model, batch


def test_phrases_are_also_asked_for_in_fewer_words(learner, recipe, marked):
    training, _, _ = read_examples(read_config(recipe, [f"data.0.entities={marked}"]).data)
    bank = CaptionPhrases(training, boxes=False, limit=16)
    asked = []
    for caption, sentence in enumerate(training.captions):
        words = tokenise(sentence)
        asked += [(caption, words[span.first : span.last]) for span in named_things(words)]
    caption, phrase = next((number, words) for number, words in asked if len(words) > 2 and words[0] == "a")
    assert {" ".join(phrase), " ".join(phrase[1:]), phrase[-1]} <= set(bank.texts)
    tokens = bank.examples(training).encode(Vocabulary.build(training.captions, 1), 16)
    images, captions = np.array([training.image_of[caption]]), np.array([caption])
    lengths = set()
    for seed in range(30):
        draws = np.random.default_rng(seed)
        found = bank.batch(
            images, captions, np.array([0]), tokens, parts=[Part()], side=4, in_captions=False, draws=draws
        )
        lengths |= set(found.tokens.lengths.tolist())
    assert {1, len(phrase)} <= lengths


def test_a_global_score_learns_from_phrases_too(learner):
    model, batch = learner
    torch.manual_seed(0)
    whole = SMLSTM(model.config.model_copy(update={"global_score": True}), model.vocabulary)
    images, captions = whole.encode_images(batch.features), whole.encode_sentences(batch.tokens)
    alone = whole.encode_sentences(batch.phrases.tokens)
    where = batch.phrases.alone
    (found,) = whole.whole_scores(images, alone)
    torch.testing.assert_close(found, images.whole @ alone.whole.T)
    loss = phrase_loss(whole, images, (alone, captions), replace(batch.phrases, in_captions=None), OBJECTIVE)
    sought = sought_loss(*whole.seek(images, whole.first_sought(alone), where.image_of), where, OBJECTIVE)
    torch.testing.assert_close(loss, (sought + found_loss(found, where, OBJECTIVE)) / 2)


def test_seeking_is_what_a_step_does(learner):
    model, batch = learner
    images, sought = model.encode_images(batch.features), torch.randn(5, model.config.similarity_width)
    own = torch.tensor([0, 1, 0, 1, 1])
    cosines, maps = model.seek(images, sought, own)
    p = model._regions(images, None, images.candidates @ direction(sought).T)
    seen = p @ images.candidates
    torch.testing.assert_close(cosines, torch.cosine_similarity(seen, sought[None], dim=2))
    torch.testing.assert_close(maps, p[own, torch.arange(5)])


def test_the_loss_of_phrases_is_added_by_its_weight(learner):
    model, batch = learner
    without, once, twice = (BatchLoss(model, OBJECTIVE, phrases=weight)(batch)[0] for weight in (0.0, 1.0, 2.0))
    images, captions = model.encode_images(batch.features), model.encode_sentences(batch.tokens)
    alone = model.encode_sentences(batch.phrases.tokens)
    expected = phrase_loss(model, images, (alone, captions), batch.phrases, OBJECTIVE)
    torch.testing.assert_close(once - without, expected)
    torch.testing.assert_close(twice - without, 2 * expected)


def test_phrases_teach_as_they_are_read_alone_and_in_captions(learner):
    model, batch = learner
    images, captions = model.encode_images(batch.features), model.encode_sentences(batch.tokens)
    sentences = (model.encode_sentences(batch.phrases.tokens), captions)
    both = phrase_loss(model, images, sentences, batch.phrases, OBJECTIVE)
    alone = phrase_loss(model, images, sentences, replace(batch.phrases, in_captions=None), OBJECTIVE)
    where = batch.phrases.in_captions
    read = captions.candidates[captions.mask][batch.phrases.chosen]
    within = sought_loss(*model.seek(images, read, where.image_of), where, OBJECTIVE)
    torch.testing.assert_close(both, (alone + within) / 2)


def test_a_grid_in_blocks_has_the_same_maps(learner):
    model, batch = learner
    images, captions = model.encode_images(batch.features), model.encode_sentences(batch.tokens)
    matched = torch.stack([batch.image_of, torch.arange(len(batch.image_of))], 1)
    scores, seen = score_grid(model, images, captions, matched)
    in_blocks, seen_in_blocks = score_grid(model, images, captions, matched, grid_bytes=1)
    torch.testing.assert_close(in_blocks, scores)
    torch.testing.assert_close(seen_in_blocks.sentence, seen.sentence)


def test_boxes_are_placed_by_the_view_that_is_read(recipe, marked, tmp_path, monkeypatch):
    drawn: dict[str, list[list[float]]] = {"read": [], "parts": []}
    for name, place in (("read", 2), ("parts", 1)):
        original = getattr(Images, name)

        def spy(self, *args, original=original, name=name, place=place):
            if len(args) > place and args[place] is not None:
                drawn[name].append(args[place].tolist())
            return original(self, *args)

        monkeypatch.setattr(Images, name, spy)
    settings = [f"data.0.entities={marked}", "stage.smlstm.phrases=1.0", 'stage.smlstm.model.modulation="paired"']
    train(
        read_config(recipe, [*settings, "stage.smlstm.epochs=1", "stage.smlstm.start_from=[]"]),
        tmp_path / "run",
        stages=["smlstm"],
    )
    assert drawn["parts"] and drawn["read"] == drawn["parts"]


@pytest.mark.parametrize(("boxes", "words"), [(False, "blstm"), (True, "phrases")])
def test_a_run_learns_from_phrases_and_says_where_it_points(recipe, marked, tmp_path, boxes, words):
    settings = [
        f"data.0.entities={marked}",
        "stage.smlstm.phrases=1.0",
        f"stage.smlstm.boxes={str(boxes).lower()}",
        'stage.smlstm.model.modulation="paired"',
        "stage.smlstm.model.instance_score=true",
        "stage.smlstm.epochs=3",
    ]
    if words == "phrases":
        settings += ['stage.smlstm.model.words="phrases"', 'stage.smlstm.model.language_model="minilm"']
        settings += ["stage.smlstm.model.own_pieces=true", "stage.smlstm.model.word_width=768"]
        settings += ["stage.smlstm.start_from=[]"]
    config = read_config(recipe, settings)
    train(config, tmp_path / "run")
    lines = [json.loads(line) for line in (tmp_path / "run" / "smlstm" / "metrics.jsonl").read_text().splitlines()]
    pointing = [line["dev"]["pointing"] for line in lines if "dev" in line]
    assert len(pointing) == 3
    assert {"alone", "alone, step 1", "in its caption", "captions covered"} <= set(pointing[0])
    assert all(0 <= share <= 1 for share in pointing[-1].values())


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("stage.mnlm.phrases=1", "only an sm-lstm"),
        ("stage.smlstm.boxes=true", "give phrases a weight"),
        ("stage.smlstm.phrases=1", "modulation `paired`"),
    ],
)
def test_what_does_not_go_together_is_said(recipe, setting, message):
    with pytest.raises(Exception, match=message):
        read_config(recipe, [setting])
