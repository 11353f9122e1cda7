"""Scorers and matchers that several threads share: each gets what it would get alone, to the last bit."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from smlstm.matching.matcher import evaluating
from smlstm.scoring import score_all
from smlstm.scoring.scorer import scorer_for
from tests.scoring.made import KINDS, features, matcher, sentences, smlstm

THREADS = 8


def at_the_same_time(ask, questions):
    """Each question's answer, asked by threads that start together and ask everything in another order."""
    start = threading.Barrier(THREADS)

    def one(number):
        start.wait()
        order = np.random.default_rng(number).permutation(len(questions))
        return [(place, ask(questions[place])) for place in order]

    with ThreadPoolExecutor(THREADS) as pool:
        return [pair for found in pool.map(one, range(THREADS)) for pair in found]


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("kind", KINDS)
def test_one_scorer_serves_all_threads(kind, precision):
    model = matcher(kind)
    scorer = scorer_for(model, getattr(torch, precision))
    images = [scorer.prepare_images(model.encode_images(features(count))) for count in (1, 3, 7, 12)]
    texts = [scorer.prepare_sentences(model.encode_sentences(sentences(count))) for count in (1, 5, 9)]
    questions = [(first, second) for first in images for second in texts]

    def ask(question):
        first, second = question
        rows = torch.arange(len(first)).repeat_interleave(len(second))
        columns = torch.arange(len(second)).repeat(len(first))
        with torch.no_grad():
            return scorer.grid(first, second).clone(), scorer.chosen(first, second, rows, columns).clone()

    alone = [ask(question) for question in questions]
    for place, found in at_the_same_time(ask, questions):
        assert all(torch.equal(one, other) for one, other in zip(found, alone[place], strict=True))


def test_a_model_in_training_is_scored_without_dropout_by_all_threads():
    model = smlstm(dropout=0.5)
    questions = [(features(count), sentences(count + 2)) for count in (2, 4, 9, 20)]
    alone = [score_all(model, *question) for question in questions]
    model.train()
    for place, found in at_the_same_time(lambda question: score_all(model, *question), questions):
        assert np.array_equal(found, alone[place])
    assert model.training


def test_the_last_one_to_leave_puts_a_model_back_into_training():
    model = smlstm().train()
    first, second = evaluating(model), evaluating(model)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert not model.training
    second.__exit__(None, None, None)
    assert model.training


def test_working_memory_made_in_inference_mode_serves_outside_of_it():
    model = smlstm()
    scorer = scorer_for(model, torch.float32)
    with torch.no_grad():
        images = scorer.prepare_images(model.encode_images(features(4)))
        texts = scorer.prepare_sentences(model.encode_sentences(sentences(3)))
        with torch.inference_mode():
            inside = scorer.grid(images, texts).clone()
        assert torch.equal(scorer.grid(images, texts), inside)
