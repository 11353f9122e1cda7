import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from smlstm.cli import main
from smlstm.model import MNLM, SMLSTM, MNLMConfig, SMLSTMConfig
from smlstm.text import Vocabulary

WIDTHS = dict(region_width=1280, context_width=1280, embedding_width=5, sentence_width=9)
SIZES = WIDTHS | dict(word_width=8, attention_width=4, similarity_width=3, hidden_width=5)
VOCABULARY = Vocabulary.build(["a red dog runs on the beach"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("explain")
    torch.manual_seed(0)
    for variant in ("full", "att"):
        config = SMLSTMConfig(**SIZES, variant=variant, backbone="efficientnet-lite0")
        SMLSTM(config, VOCABULARY).save(folder / variant / "model")
    config = SMLSTMConfig(**SIZES, modulation="paired", global_score=True, backbone="efficientnet-lite0")
    SMLSTM(config, VOCABULARY).save(folder / "paired")
    SMLSTM(SMLSTMConfig(**SIZES), VOCABULARY).save(folder / "nameless")
    MNLM(MNLMConfig(**WIDTHS, backbone="efficientnet-lite0"), VOCABULARY).save(folder / "blind")
    pixels = np.random.default_rng(0).integers(0, 255, (60, 90, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(folder / "dog.jpg")
    (folder / "broken.jpg").write_bytes(b"\xff\xd8\xff\xe0 not a photo")
    return folder


@pytest.fixture
def smlstm(folder, monkeypatch, capsys):
    """Run the command in this process: its exit code, stdout and stderr."""
    monkeypatch.chdir(folder)

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["smlstm", "explain", *arguments, "--runtime", "torch"])
        with pytest.raises(SystemExit) as ended:
            main()
        told = capsys.readouterr()
        return int(ended.value.code or 0), told.out, told.err

    return run


def test_a_pair_is_explained_on_the_terminal_and_in_a_picture(smlstm):
    code, out, err = smlstm("dog.jpg", "a red zebra", "--model", "full/model", "--grid", "3", "--out", "seen.png")
    assert code == 0
    first, *steps, parts = out.splitlines()
    assert first.startswith('dog.jpg  "a red zebra"  score ')
    assert [line[:8] for line in steps] == ["  step 1", "  step 2", "  step 3"]
    assert all(" phrase: a red zebra 100%" in line for line in steps)
    assert parts.endswith(", all of it from the steps.")
    assert "“a red zebra”: Words that the model has not learned: zebra." in err
    assert "written: seen.png" in err
    assert Image.open("seen.png").width > 1000


def test_photos_and_sentences_make_all_pairs_and_models_are_compared(smlstm):
    arguments = ("dog.jpg", "a red dog", "the beach", "dog.jpg", "--grid", "2", "--json")
    code, out, _ = smlstm(*arguments, "--model", "full/model", "--compare", "att/model", "--out", "both.html")
    assert code == 0
    found = json.loads(out)
    assert [each["model"] for each in found["models"]] == ["full/model", "att/model"]
    pairs = found["models"][0]["pairs"]
    assert [(pair["photo"], pair["sentence"]) for pair in pairs] == [
        ("dog.jpg", "a red dog"),
        ("dog.jpg", "the beach"),
    ] * 2
    step = pairs[0]["steps"][0]
    assert np.sum(step["regions"]) == pytest.approx(1, abs=1e-4)
    assert np.shape(step["regions"]) == (2, 2)
    assert sum(word["saliency"] for word in step["words"]) == pytest.approx(1, abs=1e-4)
    assert (step["phrase"]["text"], step["phrase"]["first"], step["phrase"]["last"]) == ("a red dog", 0, 3)
    assert pairs[0]["parts"]["whole"] == 0 and pairs[0]["words"][1]["regions"] is None
    assert Path("both.html").read_text(encoding="utf-8").startswith("<!doctype html>")


def test_where_each_word_is_and_what_the_whole_gave_are_told(smlstm):
    code, out, _ = smlstm(
        "dog.jpg", "a red dog on the beach", "--model", "paired", "--grid", "3", "--out", "words.html"
    )
    assert code == 0
    *_, words, parts = out.splitlines()
    assert [word.split(":")[0] for word in words.removeprefix("  words   ").split(", ")] == ["red", "dog", "beach"]
    assert parts.endswith(" from photo and sentence as wholes.")
    assert 'class="word"' in Path("words.html").read_text(encoding="utf-8")


def test_a_stage_stands_for_its_model_and_cut_words_are_told(smlstm):
    long = " ".join(["dog"] * 300)
    code, _, err = smlstm("dog.jpg", long, "--model", "full", "--grid", "2")
    assert code == 0
    words = SMLSTMConfig(**SIZES).max_words
    assert f"…”: The model read the first {words} words; {300 - words} were cut." in err


def test_a_sentence_too_long_for_a_file_name_is_a_sentence(smlstm):
    sentence = "собака бежит по пляжу " * 9
    code, out, _ = smlstm("dog.jpg", sentence, "--model", "full", "--grid", "2")
    assert code == 0
    assert len(out.splitlines()) == 5


def test_a_model_that_does_not_say_its_grid_is_told_of(smlstm):
    code, _, err = smlstm("dog.jpg", "a red dog", "--model", "full/model")
    assert code == 0
    assert "taking 7 x 7 (--grid chooses)" in err


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["dog.jpg", "a dog", "--model", "blind"], 3, "blind has no attention (mnlm)"),
        (["dog.jpg", "a dog", "--model", "nameless"], 2, "does not say which backbone"),
        (["dog.jpg", "a dog", "--model", "nowhere"], 3, "nowhere does not exist"),
        (["missing.jpg", "a dog", "--model", "full/model"], 3, "cannot read photo missing.jpg: there is no such file"),
        (["broken.jpg", "a dog", "--model", "full/model"], 3, "cannot read photo broken.jpg: the JPEG data is damaged"),
        (["dog.jpg", "...", "--model", "full/model"], 3, "sentence 0 has no words"),
        (["dog.jpg", "", "--model", "full/model"], 3, "sentence 0 has no words"),
        (["dog.jpg", "--model", "full/model"], 3, "there is no sentence"),
        (["a dog", "a cat", "--model", "full/model"], 3, "there is no photo among 'a dog', 'a cat'"),
        (["dog.jpg", "a dog", "--model", "full/model", "--out", "x.gif"], 3, "must end in .png or .html"),
        (["dog.jpg", "a dog", "--model", "full/model", "--grid", "99"], 2, "grid 99 is outside"),
        (["dog.jpg", "a dog", "--model", "full/model", "--pairs", "3"], 3, "--pairs goes with --data"),
        (["--data", "nowhere", "--model", "full/model"], 2, "--runtime says nothing beside --data"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(smlstm, arguments, code, told):
    found, out, err = smlstm(*arguments)
    assert (found, out) == (code, "")
    assert told in err
    assert "Traceback" not in err


@pytest.mark.slow
def test_the_command_runs_by_itself(folder, tmp_path):
    command = [sys.executable, "-c", "from smlstm.cli import main; main()", "explain", "dog.jpg", "a dog"]
    done = subprocess.run(
        [*command, "--model", "full/model", "--out", str(tmp_path / "page.html"), "--runtime", "torch"],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={**os.environ, "SMLSTM_CACHE": str(tmp_path)},
    )
    assert done.returncode == 0, done.stderr
    assert "step 3" in done.stdout
    assert (tmp_path / "page.html").exists()
