"""Short sentences as people type them, and the images that show what they name."""

import numpy as np

from smlstm.pair.short_sentences import short_sentences

CAPTIONS = ("a brown dog on the grass", "two dogs play", "a man in a brown hat", "the dog of a man")
IMAGE_OF = [0, 1, 2, 2]


def test_phrases_and_their_nouns_become_sentences():
    texts, relevant = short_sentences(CAPTIONS, IMAGE_OF, 3, most=100)
    assert {"a brown dog", "brown dog", "dog", "dogs", "two dogs", "a man", "man", "a brown hat", "hat"} <= set(texts)
    assert relevant.shape == (3, len(texts)) and len(set(texts)) == len(texts)
    assert not {"a", "the", "on", "in"} & set(texts)


def test_every_image_that_shows_it_is_right():
    texts, relevant = short_sentences(CAPTIONS, IMAGE_OF, 3, most=100)
    shown = {text: np.flatnonzero(relevant[:, column]).tolist() for column, text in enumerate(texts)}
    assert shown["dog"] == [0, 1, 2] and shown["dogs"] == [0, 1, 2]
    assert shown["a brown dog"] == [0], "brown hat and dog of another caption are no brown dog"
    assert shown["two dogs"] == [1] and shown["hat"] == [2]


def test_so_many_are_drawn_the_same_each_time():
    first, relevant = short_sentences(CAPTIONS, IMAGE_OF, 3, most=4)
    again, _ = short_sentences(CAPTIONS, IMAGE_OF, 3, most=4)
    assert first == again and len(first) == 4 and relevant.any(0).all()
