"""Averaged maps: where a matcher looks at each step over many pairs (the paper's figure on centre bias)."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from smlstm.data import Features, Record
from smlstm.errors import InputError
from smlstm.explain.explanation import grid_side
from smlstm.matching.batch import ImageFeatures, Saliency
from smlstm.matching.matcher import Matcher, evaluating
from smlstm.text import tokenise


@dataclass(frozen=True, eq=False)
class AveragedMaps:
    """The mean map of each step."""

    regions: NDArray[np.float32]
    """T x rows x columns; each map sums to 1."""
    pairs: int
    name: str = ""

    @property
    def even_shares(self) -> NDArray[np.float32]:
        """The maps in units of an even share."""
        shares: NDArray[np.float32] = self.regions * np.float32(self.regions[0].size)
        return shares

    @property
    def central_shares(self) -> tuple[float, ...]:
        """Saliency in the central quarter of the photo's area at each step; 0.25 would be even."""
        return tuple(_central_share(grid) for grid in self.regions)

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "name": self.name,
            "pairs": self.pairs,
            "central_quarter": list(self.central_shares),
            "regions": self.regions.tolist(),
        }


def _central_share(grid: NDArray[np.float32]) -> float:
    fine = np.kron(grid, np.ones((4, 4), np.float32))  # a multiple of four cuts a quarter exactly
    rows, columns = fine.shape
    central = fine[rows // 4 : rows - rows // 4, columns // 4 : columns - columns // 4]
    return float(central.sum() / fine.sum())


@torch.no_grad()
def average_maps(
    matcher: Matcher, batches: Iterable[tuple[ImageFeatures, Sequence[str]]], name: str = ""
) -> AveragedMaps:
    """Average over the pairs (image k, sentence k) of each batch."""
    total: torch.Tensor | None = None
    pairs = 0
    with evaluating(matcher):
        for features, sentences in batches:
            if len(features) != len(sentences):
                raise InputError(f"{len(features)} images and {len(sentences)} sentences are not pairs")
            aligned = torch.arange(len(sentences))[:, None].expand(-1, 2)
            found = matcher.attend(matcher.encode_images(features), matcher.encode_sentences(sentences), aligned)
            if _steps_are_words(found):
                raise InputError(
                    f"a matcher of kind {matcher.kind} takes a step a word: steps of different sentences have "
                    "nothing in common to average"
                )
            maps = found.image.double().sum(0).cpu()  # T, I
            total = maps if total is None else total + maps
            pairs += len(sentences)
    if total is None or pairs == 0:
        raise InputError("there are no pairs to average over")
    side = grid_side(total.shape[1])
    return AveragedMaps((total / pairs).reshape(-1, side, side).float().numpy(), pairs, name)


def average_records(
    matcher: Matcher,
    features: Features,
    records: Sequence[Record],
    *,
    batch: int = 64,
    name: str = "",
    progress: Callable[[int, int], None] | None = None,
) -> AveragedMaps:
    """Average over a split: every stored image with each of its captions; `progress` is told of pairs."""
    items = [
        (record.key, caption)
        for record in records
        if record.key in features
        for caption in record.captions
        if tokenise(caption)
    ]

    def batches() -> Iterator[tuple[ImageFeatures, list[str]]]:
        for start in range(0, len(items), batch):
            if progress is not None:
                progress(start, len(items))
            part = items[start : start + batch]
            regions, context = features.read([key for key, _ in part])
            yield ImageFeatures.from_numpy(regions, context), [text for _, text in part]

    return average_maps(matcher, batches(), name)


def _steps_are_words(found: Saliency) -> bool:
    steps, words = found.sentence.shape[1:]
    return steps == words and steps > 1 and bool((found.sentence.amax(2) == 1).all())
