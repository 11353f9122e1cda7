"""Training on what a language model reads: once, resumed, the same as reading each sentence when it is needed."""

import json
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from smlstm import Matcher
from smlstm.errors import ConfigurationError, InputError
from smlstm.matching.batch import Tokens
from smlstm.text import tokenise
from smlstm.text.language_model import WIDTH, LanguageModel, language_model
from smlstm.training import read_config, reading, train
from smlstm.training.reading import CaptionVectors, read_captions
from smlstm.training.stopping import Stopping

CAPTIONS = [tokenise(f"a {colour} {thing} on the grass") for colour in ("red", "blue") for thing in ("dog", "big car")]
READ = ['stage.mnlm.model.language_model="minilm"', 'stage.smlstm.model.language_model="minilm"']


def test_interrupted_reading_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "_PART", 1)
    whole, resumed = tmp_path / "whole.f16", tmp_path / "resumed.f16"
    read_captions(CAPTIONS, whole)

    stops = iter([False, False, True])
    assert not read_captions(CAPTIONS, resumed, lambda: next(stops))
    assert not resumed.exists()
    with resumed.with_suffix(".part").open("ab") as file:
        file.write(b"half a caption")
    asked = []
    monkeypatch.setattr(
        LanguageModel,
        "read_once",
        lambda self, words, dtype, read=LanguageModel.read_once: asked.append(words) or read(self, words, dtype),
    )
    assert read_captions(CAPTIONS, resumed)
    assert asked == [[CAPTIONS[2]], [CAPTIONS[3]]]
    assert resumed.read_bytes() == whole.read_bytes()
    vectors = CaptionVectors(whole, np.array([len(words) for words in CAPTIONS])).select(np.array([3, 0]))
    assert vectors.shape == (2, 7, WIDTH)
    torch.testing.assert_close(vectors[0], language_model().read([CAPTIONS[3]])[0], atol=5e-3, rtol=0)
    assert not vectors[1, 6:].any()


def test_a_run_reads_its_captions_once(recipe, tmp_path, monkeypatch):
    folder = tmp_path / "run"
    config = read_config(recipe, READ)
    train(config, folder, stages=["mnlm"])
    (file,) = (folder / "sentences").glob("*.f16")
    written = file.stat().st_mtime_ns
    results = train(config, folder)
    assert [result.finished for result in results] == [True, True]
    assert file.stat().st_mtime_ns == written
    model = Matcher.load(folder / "model")
    assert not any("embedding" in name for name in model.state_dict())
    assert model.vocabulary.unknown_words(["a crimson disc"])
    # Words outside the vocabulary are told apart all the same.
    unknown = [model.encode_sentences([f"a {word}"]) for word in ("crimson disc", "lilac oval")]
    assert not torch.allclose(unknown[0].candidates, unknown[1].candidates, atol=1e-3)


def test_tokens_that_nobody_has_read_are_refused(recipe, tmp_path):
    config = read_config(recipe, [*READ, "stage.mnlm.epochs=1"])
    train(config, tmp_path / "run", stages=["mnlm"])
    model = Matcher.load(tmp_path / "run" / "mnlm" / "model")
    with pytest.raises(InputError, match="as strings, not as tokens"):
        model.encode_sentences(Tokens(torch.tensor([[2, 3]]), torch.tensor([2])))


def test_reading_ends_when_time_is_up_and_goes_on(recipe, tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "_PART", 64)
    config = read_config(recipe, READ)
    (stopped,) = train(config, tmp_path / "run", stages=["mnlm"], minutes=0)
    assert (stopped.finished, stopped.reason) == (False, "time is up")
    assert not list((tmp_path / "run" / "sentences").glob("*.f16"))
    (done,) = train(config, tmp_path / "run", stages=["mnlm"])
    assert done.finished


def test_two_processes_read_one_file(tmp_path):
    """The second one waits for the first, and finds what it wrote."""
    path = tmp_path / "captions.f16"
    with ThreadPoolExecutor(2) as pool:
        done = list(pool.map(lambda _: reading._read_alone(CAPTIONS, path, Stopping(), None, torch.float32), range(2)))
    assert done == [True, True]
    assert path.stat().st_size == sum(map(len, CAPTIONS)) * WIDTH * 2
    assert not path.with_suffix(".part").exists()


def test_two_readers_start_from_two_models(recipe, tmp_path):
    """One MNLM reads with the language model, one has vectors of its own; the sm-LSTM takes over from both."""
    first = read_config(recipe, [*READ[:1], 'stage.mnlm.model.sentence_pooling="mean"', "stage.mnlm.epochs=1"])
    train(first, tmp_path / "first", stages=["mnlm"])
    settings = [
        *READ[1:],
        "stage.mnlm.epochs=1",
        "stage.smlstm.epochs=1",
        'stage.smlstm.model.context_words="both"',
        "stage.smlstm.model.global_score=true",
        f"stage.smlstm.start_from=['{tmp_path / 'first' / 'mnlm'}', 'mnlm']",
    ]
    config = read_config(recipe, settings)
    results = train(config, tmp_path / "run")
    assert [result.finished for result in results] == [True, True]
    model = Matcher.load(tmp_path / "run" / "model")
    assert model.context_embedding is not None
    with pytest.raises(ConfigurationError, match="'nowhere' is neither an earlier stage"):
        read_config(recipe, ["stage.smlstm.start_from=['mnlm', 'nowhere']"])


def test_a_file_of_another_length_is_refused(tmp_path):
    path = tmp_path / "captions.f16"
    read_captions(CAPTIONS, path)
    with path.open("ab") as file:
        file.write(b"more")
    with pytest.raises(InputError, match="delete it"):
        CaptionVectors(path, np.array([len(words) for words in CAPTIONS]))


def test_baselines_start_from_an_mnlm_that_reads_like_them(recipe, tmp_path):
    settings = [*READ, "stage.mnlm.epochs=1", 'stage.smlstm.kind="scan"']
    names = {"max_words": 16, "sentence_width": 16, "language_model": "minilm"}
    settings.append("stage.smlstm.model=" + json.dumps(names).replace(":", " ="))
    results = train(read_config(recipe, [*settings[:1], *settings[2:]]), tmp_path / "run")
    assert all(result.finished for result in results)


def test_reading_in_bfloat16_says_nearly_the_same(tmp_path):
    exact = language_model().read(CAPTIONS)
    for dtype, allowed in ((torch.float32, 1e-3), (torch.bfloat16, 0.03)):
        for one, other in zip(exact, language_model().read_once(CAPTIONS, dtype), strict=True):
            assert one.dtype == other.dtype == torch.float16
            off = (one.float() - other.float()).norm() / one.float().norm()
            assert off < allowed
