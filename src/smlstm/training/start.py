"""Where a stage's weights come from: chance, or a model that was trained before."""

import torch

from smlstm.errors import ConfigurationError
from smlstm.matching.matcher import Matcher
from smlstm.model import MNLM, SMLSTM
from smlstm.model.mnlm import initialise_from_mnlm


@torch.no_grad()
def start_from_model(matcher: Matcher, trained: Matcher) -> list[str]:
    """Take over what two matchers share; the names of what was taken."""
    if isinstance(matcher, SMLSTM) and isinstance(trained, MNLM):
        taken = initialise_from_mnlm(matcher, trained)
    else:
        taken = _take_equal(matcher, trained)
    if not taken:
        raise ConfigurationError(
            f"a {matcher.kind} of these sizes shares nothing with the {trained.kind} it should start from: "
            "give both the same embedding_width and sentence_width, or leave start_from out"
        )
    return taken


_WHOLES = ("image_whole.", "region_whole.")


def _take_equal(matcher: Matcher, trained: Matcher) -> list[str]:
    """Tensors of one name and shape; word vectors by word."""
    theirs = trained.state_dict()
    taken = []
    same_reader = matcher.config.language_model == trained.config.language_model
    if same_reader and matcher.config.language_model:
        taken.append("language model")
    learned = [getattr(each.config, "context_words", "same") != "same" for each in (matcher, trained)]
    for name, tensor in matcher.state_dict().items():
        if learned[0] != learned[1] and name.startswith(("sentence_context.", "sentence_attention.context.")):
            continue  # learned for another reader of the whole sentence
        if name not in theirs or theirs[name].shape[1:] != tensor.shape[1:]:
            continue
        if name.startswith(_WHOLES) and learned == [True, True]:
            # The first part is of learned words in both; one of them may have a second part.
            shared = min(len(tensor), len(theirs[name]))
            tensor[:shared] = theirs[name][:shared]
            taken.append(name)
            continue
        if not same_reader and not name.startswith("image"):
            continue  # learned for other word vectors
        if name in ("embedding.weight", "context_embedding.weight"):
            rows = [(row, trained.vocabulary.row(word)) for row, word in enumerate(matcher.vocabulary.words, start=2)]
            pairs = torch.tensor([(1, 1), *((new, old) for new, old in rows if old > 1)])
            tensor[pairs[:, 0]] = theirs[name][pairs[:, 1]]
            taken.append(name)
        elif theirs[name].shape == tensor.shape:
            tensor.copy_(theirs[name])
            taken.append(name)
    return taken
