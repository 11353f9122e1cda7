import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
import torch
from PIL import Image

from smlstm.baselines.scan import SCAN, SCANConfig
from smlstm.errors import InputError
from smlstm.explain import average_maps, explain, picture, write, write_averages, write_comparison
from smlstm.explain.blocks import score_line, text, weighted_words
from smlstm.explain.picture import colour_limit
from smlstm.matching.batch import ImageFeatures
from smlstm.text import Vocabulary
from tests.explain.conftest import SENTENCES, build


class Page(HTMLParser):
    """What a page holds; refuses tags that are not closed in order."""

    def __init__(self, content: str) -> None:
        super().__init__()
        self.open, self.tags, self.words = [], [], []
        self.feed(content)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "img", "br", "circle", "polyline"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)

    def all(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.tags if name == tag]


def check_self_contained(content: str) -> Page:
    page = Page(content)
    assert not page.all("script") and not page.all("link")
    assert not re.search(r"(?:src|href)=[\"'](?!data:)|url\(|@import", content)
    for image in page.all("img"):
        assert image["src"].startswith("data:image/jpeg;base64,")
        assert len(image["alt"]) > 10
    assert "prefers-color-scheme: dark" in content
    return page


def test_a_page_is_self_contained_and_hostile_names_stay_text(explanations, tmp_path):
    write(explanations, tmp_path / "page.html")
    content = (tmp_path / "page.html").read_text(encoding="utf-8")
    page = check_self_contained(content)
    assert len(page.all("section")) == 3
    assert len(page.all("img")) == 3 * (1 + 1 + 2 * 3)  # photo and legend, then two pictures a step
    assert "“an unseen <b>zebra</b> & a dog”" in page.words
    assert '"><script>x</script>.jpg' in page.words
    assert len([each for each in page.all("strong") if each["class"] == "phrase"]) == 3 * 3
    assert sum(words.endswith(", all of it from the steps.") for words in page.words) == 3
    assert not [span for span in page.all("span") if "tabindex" in span]  # this model has no maps of words
    assert "Point at a word" not in content
    assert "has not learned: an, unseen, b, zebra" in content
    assert all(drawing["aria-label"].startswith("Score after each step") for drawing in page.all("svg"))


def test_on_a_page_words_that_have_a_map_can_be_pointed_at(searching, tmp_path):
    write(searching, tmp_path / "page.html")
    content = (tmp_path / "page.html").read_text(encoding="utf-8")
    page = check_self_contained(content)
    assert len([span for span in page.all("span") if span.get("class") == "word"]) == sum(
        len(each.mapped_words) for each in searching
    )
    told = [image["alt"] for image in page.all("img") if image["alt"].startswith("“dog”: ")]
    assert len(told) == 2 and all(each.endswith(".") for each in told)
    assert sum(words.endswith(" from photo and sentence as wholes.") for words in page.words) == 3
    assert content.count("Point at a word") == 3


def test_a_picture_has_a_small_map_for_each_word_that_has_one(searching, tmp_path):
    write(searching[:1], tmp_path / "with.png")
    write([replace(searching[0], word_maps=None)], tmp_path / "without.png")
    with_words, without = (Image.open(tmp_path / name) for name in ("with.png", "without.png"))
    assert with_words.width == without.width and with_words.height > without.height + picture.WORD_PANEL // 2


def test_models_that_have_maps_of_words_stand_beside_those_that_have_none(searching, explanations, tmp_path):
    others = [replace(each, name=own.name) for each, own in zip(explanations, searching, strict=True)]
    write_comparison({"with": searching, "without": others}, tmp_path / "both.html")
    page = check_self_contained((tmp_path / "both.html").read_text(encoding="utf-8"))
    assert sum(figure.get("class") == "where" for figure in page.all("figure")) == 3


def test_a_picture_has_every_pair_and_step(explanations, tmp_path):
    write(explanations[:1], tmp_path / "one.png")
    write(explanations, tmp_path / "three.PNG")
    one, three = Image.open(tmp_path / "one.png"), Image.open(tmp_path / "three.PNG")
    assert one.width == three.width
    assert three.height > 2 * one.height
    assert list(tmp_path.glob(".*")) == []


def test_a_matcher_of_many_steps_wraps_its_steps(features, tmp_path):
    config = SCANConfig(region_width=6, context_width=7, embedding_width=5, sentence_width=8)
    found = explain(SCAN(config, Vocabulary.build(SENTENCES)).eval(), features, SENTENCES)
    write(found[:1], tmp_path / "words.png")  # without photos: maps on grey
    assert Image.open(tmp_path / "words.png").width < 1700


def test_models_stand_beside_each_other(features, photos, explanations, tmp_path):
    names = [each.name for each in explanations]
    other = explain(build(variant="att"), features, SENTENCES, names=names, photos=photos)
    write_comparison({"with context": explanations, "without context": other}, tmp_path / "both.png")
    write_comparison({"with context": explanations, "without context": other}, tmp_path / "both.html")
    page = check_self_contained((tmp_path / "both.html").read_text(encoding="utf-8"))
    assert len(page.all("h3")) == 6
    assert sum("has not learned: an, unseen, b, zebra" in words for words in page.words) == 1
    few = explain(build(variant="att", max_words=4), features, SENTENCES, names=names, photos=photos)
    write_comparison({"one": explanations, "other": few}, tmp_path / "few.html")
    page = check_self_contained((tmp_path / "few.html").read_text(encoding="utf-8"))
    assert any(words.startswith("other: The model read the first 4 words; ") for words in page.words)
    with pytest.raises(InputError, match="on the same pairs only"):
        write_comparison({"a": explanations, "b": other[:2]}, tmp_path / "both.png")


def test_averaged_maps_are_the_mean_of_all_pairs_however_they_are_batched(features, tmp_path):
    matcher = build()
    found = average_maps(matcher, [(features, SENTENCES)], name="full")
    parts = average_maps(matcher, [(features.select(slice(k, k + 1)), SENTENCES[k : k + 1]) for k in range(3)])
    singles = np.mean([each.regions for each in explain(matcher, features, SENTENCES)], axis=0)
    assert np.allclose(found.regions, singles, atol=1e-6)
    assert np.allclose(found.regions, parts.regions, atol=1e-6)
    assert (found.pairs, found.regions.shape) == (3, (3, 4, 4))
    write_averages([found, parts], tmp_path / "mean.png")
    write_averages([found], tmp_path / "mean.html")
    check_self_contained((tmp_path / "mean.html").read_text(encoding="utf-8"))


def test_the_central_quarter_is_a_quarter_of_an_even_map(features):
    found = average_maps(build(variant="mean"), [(features, SENTENCES)])
    assert found.central_shares == pytest.approx((0.25, 0.25, 0.25))
    odd = ImageFeatures(torch.ones(1, 49, 6), torch.ones(1, 7))
    assert average_maps(build(variant="mean"), [(odd, SENTENCES[:1])]).central_shares[0] == pytest.approx(0.25)


def test_steps_that_are_words_are_not_averaged(features):
    config = SCANConfig(region_width=6, context_width=7, embedding_width=5, sentence_width=8)
    with pytest.raises(InputError, match="takes a step a word"):
        average_maps(SCAN(config, Vocabulary.build(SENTENCES)), [(features, SENTENCES)])


def test_one_sharp_map_does_not_leave_the_others_in_the_dark():
    assert colour_limit([np.array([1.1], np.float32)]) == 2
    assert colour_limit([np.array([3.0], np.float32), np.array([1.0], np.float32)]) == 3
    assert colour_limit([np.array([40.0], np.float32)]) == 4


def test_a_score_that_hardly_changes_is_drawn_so():
    flat, steep = score_line([-0.165, -0.166, -0.167]), score_line([0.1, 0.9, 0.5])
    assert flat.labels == ["-0.165", "-0.166", "-0.167"] and steep.labels == ["0.10", "0.90", "0.50"]
    assert max(flat.heights) - min(flat.heights) == pytest.approx(0.02)
    assert sum(flat.heights) / 3 == pytest.approx(0.5)
    assert steep.heights == pytest.approx([0, 1, 0.5])


def test_text_stays_within_its_width(explanations):
    long = "x" * 200
    assert text(f"{long} and {long}", 120).width == 120
    shares = np.full(3, 1 / 3, np.float32)
    assert weighted_words([long, "a", "b"], shares, range(2), [False] * 3, 120).width == 120


def test_names_that_say_nothing_and_empty_galleries_are_refused(explanations, tmp_path):
    for name, told in (("a.txt", "must end in .png or .html"), ("no/a.png", "there is no folder")):
        with pytest.raises(InputError, match=told):
            write(explanations, tmp_path / name)
    for name in ("a.png", "a.html"):
        with pytest.raises(InputError, match="nothing to show"):
            write([], tmp_path / name)


def test_more_pairs_than_a_picture_can_hold_are_refused(explanations, monkeypatch):
    monkeypatch.setattr(picture, "_TALLEST", 1000)
    with pytest.raises(InputError, match=r"too many pairs for one picture: write a page"):
        picture.gallery(explanations)
