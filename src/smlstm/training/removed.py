"""Settings of 0.1 that are gone: what to say to whoever still gives one.

A run's own `config.json` names every setting. One that has the value by which nothing changes is left out without a
word, so that runs of 0.1 can be run again and their checkpoints still fit.
"""

from collections.abc import Iterator
from typing import Any

# Where it was (* is any name or number), the value that changed nothing, and what to do now.
REMOVED: dict[str, tuple[Any, str]] = {
    "vectors": (None, "word vectors are learned, or a language model's (language_model)"),
    "data.*.cropped": ([], "photos have other `views`"),
    "data.*.mirrored": (None, "give the store in the list `views`"),
    "stage.*.mined_group": (16, "batches are drawn at random"),
    "stage.*.mined_pool": (2000, "batches are drawn at random"),
    "stage.*.mined_by": (None, "batches are drawn at random"),
    "stage.*.score_group": (None, "all pairs of a batch are scored: take a smaller batch_size, or captions_together"),
    "stage.*.accumulation": (1, "a step has one batch: take a larger batch_size"),
    "stage.*.optimiser": ("adamw", "it is AdamW, which without weight_decay is Adam"),
    "stage.*.decay": ("cosine", "the rate falls along a cosine, to final_share of its peak"),
    "stage.*.ema": (0.0, "weights are not averaged: the end of the cosine settles them"),
    "stage.*.model.feature_scale": ("rms", "features are always divided by their root mean square"),
    "stage.*.objective.regulariser_scale": ("mean", "squares are always averaged over the candidates"),
    "pair.add_shortlist": (True, "name the reranker as its own shortlist: its score then stands alone"),
    "pair.fold_words": (None, "train the stage with a smaller embedding_width"),
}

# Values of settings that are still there.
REMOVED_VALUES: dict[str, tuple[Any, str]] = {
    "stage.*.negatives": ("mined", "take `batch` or `uniform`"),
    "stage.*.model.context_words": ("learned", "take `both` with global_score, or `same`"),
}

RENAMED = {"reproduce.rivals": "reproduce.baselines"}


def without_removed(raw: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Settings without those that are gone, and a sentence for each that would have changed something."""
    raw, problems = _copied(raw), []
    for pattern, (usual, advice) in REMOVED.items():
        for place, table, key in _find(raw, pattern.split(".")):
            if table[key] != usual:
                problems.append(f"{place}: `{key}` was taken out in 0.2: {advice} (found {table[key]!r})")
            del table[key]
    for pattern, (value, advice) in REMOVED_VALUES.items():
        for place, table, key in _find(raw, pattern.split(".")):
            if table[key] == value:
                problems.append(f"{place}: `{value}` was taken out in 0.2: {advice}")
                del table[key]
    for old, new in RENAMED.items():
        for place, table, key in _find(raw, old.split(".")):
            problems.append(f"{place}: `{key}` has another name since 0.2: `{new.rpartition('.')[2]}`")
            del table[key]
    for place, table, key in _find(raw, ["pair", "reranker"]):
        if isinstance(table[key], list):
            problems.append(f"{place}: lists were taken out in 0.2: name one stage (found {table[key]!r})")
            del table[key]
    return raw, problems


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copied(each) for key, each in value.items()}
    return [_copied(each) for each in value] if isinstance(value, list) else value


def _find(value: Any, parts: list[str], place: str = "") -> Iterator[tuple[str, dict[str, Any], str]]:
    """Where a pattern leads: the place's name, the table and the key in it."""
    first, *rest = parts
    if not rest:
        if isinstance(value, dict) and first in value:
            yield f"{place}{first}", value, first
        return
    inside = dict(enumerate(value)) if isinstance(value, list) else value
    for key, each in list(inside.items()) if isinstance(inside, dict) else ():
        if first in ("*", key):
            yield from _find(each, rest, f"{place}{key}.")
