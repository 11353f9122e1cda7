"""The end of a run that makes a pair: two of its models, what their common score means, in one folder."""

import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from smlstm.matching.matcher import Matcher
from smlstm.model import SMLSTM
from smlstm.pair.calibration import PRIOR, Relevant, ScoredPairs, fit_calibration, one_each, reliability, weight_of
from smlstm.pair.pair import save_pair
from smlstm.pair.short_sentences import short_sentences
from smlstm.pair.term_weights import fit_term_weights
from smlstm.training.config import PairConfig, RunConfig
from smlstm.training.dev import DevMetrics, dev_scores, score_sentences
from smlstm.training.examples import Examples
from smlstm.training.folder import RunFolder
from smlstm.training.sources import Sources
from smlstm.training.watchers import Watcher

Scores = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int64]


_SHORT_SENTENCES, _IMAGES_FOR_TERMS = 2000, 300
"""Of each dataset."""


@dataclass(frozen=True)
class _Dev:
    """Dev of one dataset: its captions, then short sentences, and which images match each."""

    name: str
    image_of: Integers
    sentences: tuple[str, ...]
    relevant: Relevant

    @classmethod
    def of(cls, name: str, dev: Examples) -> "_Dev":
        """Captions match the image that they were written of, short sentences all images that show what they name."""
        images, image_of = np.unique(dev.image_of, return_inverse=True)
        short, shown = short_sentences(dev.captions, image_of.tolist(), len(images), _SHORT_SENTENCES)
        relevant = np.concatenate([one_each(image_of, len(images)), shown], 1)
        return cls(name, image_of.astype(np.int64), (*dev.captions, *short), relevant)

    @property
    def captions(self) -> slice:
        """Which of the sentences are captions."""
        return slice(len(self.image_of))

    @property
    def short(self) -> slice:
        """Which of the sentences are short."""
        return slice(len(self.image_of), None)

    def pairs(self, scores: Scores, some: slice = slice(None)) -> tuple[Scores, Relevant, Sequence[str]]:
        """What a calibration is fitted to, of all sentences or of some."""
        return scores[:, some], self.relevant[:, some], self.sentences[some]

    def measured(self, scores: Scores) -> DevMetrics:
        """How captions and images are ranked."""
        return DevMetrics.of(scores[:, self.captions], self.image_of)


@torch.inference_mode()
def make_pair(  # noqa: PLR0917 - what a run knows
    config: RunConfig, wanted: PairConfig, run: RunFolder, sources: Sources, device: torch.device, watcher: Watcher
) -> None:
    """Score all of dev with all models of the pair, fit the calibration, and write `pair/`."""
    stages = list(dict.fromkeys([wanted.shortlist, wanted.reranker]))
    matchers = {stage: _as_saved(Matcher.load(run.stage(stage).best_model), wanted).to(device) for stage in stages}
    if wanted.fit_terms:
        matchers[wanted.reranker] = _with_fitted_terms(config, wanted, sources, matchers[wanted.reranker], watcher)
    sets: list[_Dev] = []
    scores: dict[str, list[Scores]] = {stage: [] for stage in stages}
    for number, entry in enumerate(config.data):
        if not entry.dev:
            continue
        watcher.notice(f"calibrating on dev of {entry.dataset.name}")
        for stage, matcher in matchers.items():
            dev = sources.dev_of(stage, matcher, number)
            if len(scores[stage]) == len(sets):
                sets.append(_Dev.of(entry.dataset.name, dev))
            with watcher.scoring(f"Scoring dev of {entry.dataset.name} with {stage}") as progress:
                scores[stage].append(score_sentences(matcher, dev, sets[-1].sentences, progress))
    near, reranked = scores[wanted.shortlist], scores[wanted.reranker]
    alone = wanted.shortlist == wanted.reranker and matchers[wanted.reranker].kind == SMLSTM.kind
    weight = weight_of(near, reranked) if not alone else 0.0
    together = [
        second + np.float32(weight) * short if weight else second for short, second in zip(near, reranked, strict=True)
    ]
    pairs = [one.pairs(found) for one, found in zip(sets, together, strict=True)]
    calibration = fit_calibration(ScoredPairs.of(pairs), weight)
    measured: dict[str, Any] = {"prior": PRIOR, "dev": {}}
    for k, one in enumerate(sets):
        sums = {stage: one.measured(each[k]).sum for stage, each in scores.items()}
        whole = one.measured(together[k]).sum
        each = ", ".join(f"{stage} {found:.1f}" for stage, found in sums.items())
        watcher.notice(f"dev Sum on {one.name}: {each}, as a pair {whole:.1f}")
        measured["dev"][one.name] = {
            "images": len(near[k]),
            "captions": len(one.image_of),
            "sum": {
                **({} if alone else {"shortlist": round(sums[wanted.shortlist], 2)}),
                "reranker": round(sums[wanted.reranker], 2),
                "pair": round(whole, 2),
                "models": {stage: round(found, 2) for stage, found in sums.items()},
            },
            "reliability": {
                kind: asdict(reliability(pairs, calibration))
                for kind, pairs in (
                    ("captions", ScoredPairs.of([one.pairs(together[k], one.captions)])),
                    ("short sentences", ScoredPairs.of([one.pairs(together[k], one.short)])),
                )
                if pairs.both
            },
        }
    shutil.rmtree(run.pair, ignore_errors=True)
    shortlist, reranker = None if alone else matchers[wanted.shortlist].cpu(), matchers[wanted.reranker].cpu()
    save_pair(run.pair, shortlist, reranker, calibration, measured=measured, half=wanted.half)
    watcher.notice(f"the pair is in {run.pair}")


def _with_fitted_terms(
    config: RunConfig, wanted: PairConfig, sources: Sources, matcher: Matcher, watcher: Watcher
) -> SMLSTM:
    """The reranker, in whose score each term counts as some images of each dev set want it."""
    assert isinstance(matcher, SMLSTM)
    scored: list[tuple[npt.NDArray[np.float32], Integers]] = []
    for number, entry in enumerate(config.data):
        if not entry.dev:
            continue
        dev = sources.dev_of(wanted.reranker, matcher, number).some_images(_IMAGES_FOR_TERMS)
        with watcher.scoring(f"Weighing the terms of {wanted.reranker} on dev of {entry.dataset.name}"):
            alone = [dev_scores(matcher.weighing(weights), dev) for weights in np.eye(matcher.config.terms).tolist()]
        scored.append((np.stack([scores for scores, _ in alone], 2), alone[0][1]))
    with torch.inference_mode(False), torch.enable_grad():
        weights = fit_term_weights([(torch.from_numpy(terms), torch.from_numpy(of)) for terms, of in scored])
    watcher.notice(f"the terms of {wanted.reranker} count {', '.join(f'{each:g}' for each in weights)}")
    weighed = matcher.weighing(weights)
    weighed.config = matcher.config.model_copy(update={"term_weights": weights})
    return weighed


def _as_saved(matcher: Matcher, wanted: PairConfig) -> Matcher:
    """With the weights that the files will have: figures are of what is used later."""
    return matcher.half().float() if wanted.half else matcher
