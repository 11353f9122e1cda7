from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from smlstm.text import language_model as module
from smlstm.text.language_model import WIDTH, LanguageModel, language_model

SENTENCES = [
    "a dog runs along the beach",
    "a puppy is running on the sand",
    "two men play chess in a park",
    "a plate of pasta on a wooden table",
]
# Cosines of the mean word vectors, from the published float32 weights and the published tokeniser.
PUBLISHED = [
    [1.0, 0.7186, -0.0288, 0.0227],
    [0.7186, 1.0, -0.0342, -0.0101],
    [-0.0288, -0.0342, 1.0, 0.0224],
    [0.0227, -0.0101, 0.0224, 1.0],
]


def words(*sentences: str) -> list[list[str]]:
    return [sentence.split() for sentence in sentences]


def test_eight_bits_say_what_the_published_weights_say():
    means = torch.stack([vectors.float().mean(0) for vectors in language_model().read(words(*SENTENCES))])
    means = torch.nn.functional.normalize(means, dim=1)
    assert (means @ means.T - torch.tensor(PUBLISHED)).abs().max() < 0.02
    dog = language_model().read(words(SENTENCES[0]))[0][1, :6].float()
    expected = torch.tensor([0.39575648, -0.22553846, 0.48114279, 0.18383852, -0.26025423, 0.28721195])
    assert torch.nn.functional.cosine_similarity(dog, expected, dim=0) > 0.99


def test_a_word_is_read_in_its_sentence_and_in_no_other():
    fresh = LanguageModel()
    alone = fresh.read(words("a bat flies at night"))[0]
    other = fresh.read(words("he swings the bat at the ball"))[0]
    assert torch.nn.functional.cosine_similarity(alone[1].float(), other[3].float(), dim=0) < 0.95
    together = LanguageModel().read(words("he swings the bat at the ball", "dog", "a bat flies at night", "dog"))
    assert [len(vectors) for vectors in together] == [7, 1, 5, 1]
    torch.testing.assert_close(together[2].float(), alone.float(), atol=5e-3, rtol=0)


@pytest.mark.parametrize("threads", [1, 2])
def test_company_changes_not_a_bit(threads):
    """Of 1 to 40 pieces, alone, in pairs and all together: a server reads whatever waits in one go."""
    texts = [" ".join((SENTENCES * 2)[number % 4 : number % 4 + 3]).split()[: 1 + number] for number in range(26)]
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        alone = [LanguageModel().read([text])[0] for text in texts]
        for together in (texts, texts[::-1], texts[::5], texts[3:5]):
            for text, vectors in zip(together, LanguageModel().read(together), strict=True):
                assert torch.equal(vectors, alone[texts.index(text)])
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("word", "pieces"),
    [
        ("dog", ["dog"]),
        ("Café", ["cafe"]),
        ("skateboarders", ["skate", "##board", "##ers"]),
        ("man's", ["man", "'", "s"]),
        ("犬", ["[UNK]"]),
        ("", ["[UNK]"]),
        ("x" * 101, ["[UNK]"]),
    ],
)
def test_pieces(word, pieces):
    model = language_model()
    spelled = {row: piece for piece, row in model._pieces.items()}
    assert [spelled[row] for row in model.pieces(word)] == pieces


def test_more_pieces_than_positions():
    read = language_model().read([["skateboarders"] * 50])[0]
    assert read.shape == (50, WIDTH)
    assert read[:42].abs().amax(1).min() > 0  # 126 pieces of three a word
    assert not read[42:].any()


def test_what_was_read_is_kept_within_bounds(monkeypatch):
    monkeypatch.setattr(module, "_KEPT_WORDS", 6)
    model = LanguageModel()
    first = model.read(words("a dog", "a cat", "a cow", "a pig"))
    assert len(model._kept) == 3
    monkeypatch.setattr(model, "_read", lambda sentences: pytest.fail(f"read again: {sentences}"))
    assert model.read(words("a pig"))[0] is first[3]


def test_threads_may_read_at_once(monkeypatch):
    monkeypatch.setattr(module, "_KEPT_WORDS", 2)
    model = LanguageModel()
    monkeypatch.setattr(model, "_read", lambda sentences: [torch.zeros(len(each.words), WIDTH) for each in sentences])
    texts = [[f"w{number % 7}"] for number in range(300)]
    with ThreadPoolExecutor(8) as pool:
        read = list(pool.map(lambda text: model.read([text, ["dog"]])[0].shape, texts))
    assert read == [(1, WIDTH)] * 300
    assert len(model._kept) == 2


def test_a_sentence_without_words_and_foreign_surroundings():
    plain = LanguageModel().read(words("a dog"))[0]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(LanguageModel().read(words("a dog"))[0], plain)
    assert LanguageModel().read([[]])[0].shape == (0, WIDTH)
