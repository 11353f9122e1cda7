"""Where a stage's weights come from, if not from chance: a model that was trained before.

The paper starts its sm-LSTM from a trained MNLM. `PARTS` lists what the two may have in common; each part is a function
that takes it over where it fits, and says whether it did. Any other two matchers share what has one name and shape.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from smlstm.errors import ConfigurationError
from smlstm.matching.matcher import Matcher
from smlstm.model import MNLM, SMLSTM
from smlstm.model.readers import PlainWords
from smlstm.model.sentence import SentenceWords, WordEmbedding
from smlstm.text import UNKNOWN, Vocabulary


@torch.no_grad()
def start_from_model(matcher: Matcher, trained: Matcher) -> list[str]:
    """Take over what two matchers share; the names of what was taken."""
    if isinstance(matcher, SMLSTM) and isinstance(trained, MNLM):
        taken = [name for name, take in PARTS if take(matcher, trained)]
    else:
        taken = _take_equal(matcher, trained)
    if not taken:
        raise ConfigurationError(
            f"a {matcher.kind} of these sizes shares nothing with the {trained.kind} it should start from: "
            "give both the same embedding_width and sentence_width, or leave start_from out"
        )
    return taken


def _language_model(model: SMLSTM, mnlm: MNLM) -> bool:
    """Nothing to copy: both read words with the same one."""
    return bool(model.config.language_model) and _same_words(model, mnlm)


def _word_vectors(model: SMLSTM, mnlm: MNLM) -> bool:
    """Matched by word, so the vocabularies may differ."""
    ours, theirs = model.context_embedding or model.embedding, mnlm.embedding
    if not _same_context_words(model, mnlm) or not isinstance(theirs, WordEmbedding):
        return False
    assert isinstance(ours, WordEmbedding)
    _copy_words(ours.weight, model.vocabulary, theirs.weight, mnlm.vocabulary)
    return True


def _sentence_context(model: SMLSTM, mnlm: MNLM) -> bool:
    """What makes n."""
    ours, theirs = model.config, mnlm.config
    same = (ours.sentence_pooling, ours.sentence_width) == (theirs.sentence_pooling, theirs.sentence_width)
    if model.sentence_context is None or not same or not _same_context_words(model, mnlm):
        return False
    model.sentence_context.load_state_dict(mnlm.sentence_context.state_dict())
    return True


def _forward_lstm(model: SMLSTM, mnlm: MNLM) -> bool:
    """The words' forward LSTM, where it has the sentence LSTM's width: its state at the last word is then n."""
    if not _words_know_n(model, mnlm):
        return False
    assert isinstance(model.words, SentenceWords) and mnlm.sentence_context.lstm is not None
    model.words.forwards.load_state_dict(mnlm.sentence_context.lstm.state_dict())
    return True


def _image_projection(model: SMLSTM, mnlm: MNLM) -> bool:
    """Where both project the same features: the context (variant `ctx`), or regions of the context's width.

    Their mean is the context for backbones that pool it so.
    """
    ours = model.comparison.image
    if not _reads_for_the_steps(model, mnlm) or ours.weight.shape != mnlm.image.weight.shape:
        return False
    ours.load_state_dict(mnlm.image.state_dict())
    return True


def _global_score(model: SMLSTM, mnlm: MNLM) -> bool:
    """The image's projection in it: with the same pooling the model starts as the MNLM, plus what its steps add.

    The second cosine of two readers starts at random, and so comes to know other things than the steps, which start
    from the same MNLM.
    """
    ours, width = model.image_whole, mnlm.config.sentence_width
    if ours is None or not _reads_for_the_context(model, mnlm):
        return False
    if (model.config.sentence_width, ours.in_features) != (width, mnlm.image.in_features):
        return False
    ours.weight[:width], ours.bias[:width] = mnlm.image.weight, mnlm.image.bias
    return True


def _sentence_projection(model: SMLSTM, mnlm: MNLM) -> bool:
    """MNLM's own, where both work on plain word vectors and it takes their mean.

    Otherwise MNLM has none, so that is the identity on n, or on the words' forward half.
    """
    ours, theirs, width = model.comparison.sentence, mnlm.sentence_context.linear, mnlm.config.sentence_width
    plain = isinstance(model.words, PlainWords) and _same_words(model, mnlm)
    if plain and theirs is not None and ours.weight.shape == theirs.weight.shape:
        ours.load_state_dict(theirs.state_dict())
        return True
    compares_n = model.config.variant == "ctx" and model.config.sentence_width == width
    if model.config.similarity_width != width or not (compares_n or _words_know_n(model, mnlm)):
        return False
    nn.init.eye_(ours.weight)
    nn.init.zeros_(ours.bias)
    return True


PARTS: tuple[tuple[str, Callable[[SMLSTM, MNLM], bool]], ...] = (
    ("language model", _language_model),
    ("word vectors", _word_vectors),
    ("sentence context", _sentence_context),
    ("words' forward LSTM", _forward_lstm),
    ("image projection", _image_projection),
    ("global score", _global_score),
    ("sentence projection", _sentence_projection),
)


def _same_words(model: SMLSTM, mnlm: MNLM) -> bool:
    """Whether the steps' words are made of the vectors that MNLM reads."""
    ours, theirs = model.config, mnlm.config
    if ours.language_model != theirs.language_model:
        return False
    return bool(ours.language_model) or ours.embedding_width == theirs.embedding_width


def _same_context_words(model: SMLSTM, mnlm: MNLM) -> bool:
    """Whether n is made of the vectors that MNLM reads."""
    if model.context_embedding is None:
        return _same_words(model, mnlm)
    return _reads_for_the_context(model, mnlm) and model.config.embedding_width == mnlm.config.embedding_width


# Two readers in one model: an MNLM that reads like the one has nothing to give to the other.
def _reads_for_the_steps(model: SMLSTM, mnlm: MNLM) -> bool:
    return model.context_embedding is None or bool(mnlm.config.language_model)


def _reads_for_the_context(model: SMLSTM, mnlm: MNLM) -> bool:
    return model.context_embedding is None or not mnlm.config.language_model


def _words_know_n(model: SMLSTM, mnlm: MNLM) -> bool:
    """Whether the words' forward LSTM can be MNLM's sentence LSTM."""
    if not isinstance(model.words, SentenceWords) or mnlm.sentence_context.lstm is None:
        return False
    return model.words.forwards.hidden_size == mnlm.config.sentence_width and _same_words(model, mnlm)


def _copy_words(ours: Tensor, our_words: Vocabulary, theirs: Tensor, their_words: Vocabulary) -> None:
    """Rows of words that both know, and the unknown word's."""
    known = [(row, their_words.row(word)) for row, word in enumerate(our_words.words, start=2)]
    rows = torch.tensor([(UNKNOWN, UNKNOWN), *((new, old) for new, old in known if old != UNKNOWN)])
    ours[rows[:, 0]] = theirs[rows[:, 1]]


def _take_equal(matcher: Matcher, trained: Matcher) -> list[str]:
    """Tensors of one name and shape; word vectors by word."""
    same_reader = matcher.config.language_model == trained.config.language_model
    same_context = _two_readers(matcher) == _two_readers(trained)
    taken = ["language model"] if same_reader and matcher.config.language_model else []
    theirs = trained.state_dict()
    for name, ours in matcher.state_dict().items():
        found = theirs.get(name)
        if found is None or found.shape[1:] != ours.shape[1:]:
            continue
        if not same_context and name.startswith(("sentence_context.", "sentence_attention.context.")):
            continue  # learned for another reader of the whole sentence
        if not same_reader and not name.startswith("image"):
            continue  # learned for other word vectors
        if name in ("embedding.weight", "context_embedding.weight"):
            _copy_words(ours, matcher.vocabulary, found, trained.vocabulary)
        elif found.shape == ours.shape:
            ours.copy_(found)
        else:
            continue
        taken.append(name)
    return taken


def _two_readers(matcher: Matcher) -> bool:
    return isinstance(matcher, SMLSTM) and matcher.context_embedding is not None
