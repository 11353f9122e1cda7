"""The end of a run that makes a pair: two of its models, what their common score means, in one folder."""

import shutil
from dataclasses import asdict
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from smlstm.matching.matcher import Matcher
from smlstm.model import SMLSTM
from smlstm.pair.calibration import PRIOR, ScoredPairs, fit_calibration, reliability, weight_of
from smlstm.pair.pair import save_pair
from smlstm.training.config import PairConfig, RunConfig
from smlstm.training.dev import DevMetrics, dev_scores
from smlstm.training.folder import RunFolder
from smlstm.training.sources import Sources
from smlstm.training.watchers import Watcher

Scores = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int64]


@torch.inference_mode()
def make_pair(  # noqa: PLR0917 - what a run knows
    config: RunConfig, wanted: PairConfig, run: RunFolder, sources: Sources, device: torch.device, watcher: Watcher
) -> None:
    """Score all of dev with all models of the pair, fit the calibration, and write `pair/`."""
    stages = list(dict.fromkeys([wanted.shortlist, wanted.reranker]))
    matchers = {stage: _as_saved(Matcher.load(run.stage(stage).best_model), wanted).to(device) for stage in stages}
    names: list[str] = []
    scores: dict[str, list[Scores]] = {stage: [] for stage in stages}
    images_of: list[Integers] = []
    for number, entry in enumerate(config.data):
        if not entry.dev:
            continue
        names.append(entry.dataset.name)
        watcher.notice(f"calibrating on dev of {names[-1]}")
        for stage, matcher in matchers.items():
            dev = sources.dev_of(stage, matcher, number)
            with watcher.scoring(f"Scoring dev of {names[-1]} with {stage}") as progress:
                found, image_of = dev_scores(matcher, dev, progress)
            scores[stage].append(found)
        images_of.append(image_of)
    near, reranked = scores[wanted.shortlist], scores[wanted.reranker]
    alone = wanted.shortlist == wanted.reranker and matchers[wanted.reranker].kind == SMLSTM.kind
    weight = weight_of(near, reranked) if not alone else 0.0
    together = [
        (second + np.float32(weight) * short, image_of) if weight else (second, image_of)
        for short, second, image_of in zip(near, reranked, images_of, strict=True)
    ]
    calibration = fit_calibration(ScoredPairs.of(together), weight)
    measured: dict[str, Any] = {"prior": PRIOR, "dev": {}}
    for k, name in enumerate(names):
        sums = {stage: DevMetrics.of(each[k], images_of[k]).sum for stage, each in scores.items()}
        whole = DevMetrics.of(together[k][0], images_of[k]).sum
        each = ", ".join(f"{stage} {found:.1f}" for stage, found in sums.items())
        watcher.notice(f"dev Sum on {name}: {each}, as a pair {whole:.1f}")
        measured["dev"][name] = {
            "images": len(near[k]),
            "captions": len(images_of[k]),
            "sum": {
                **({} if alone else {"shortlist": round(sums[wanted.shortlist], 2)}),
                "reranker": round(sums[wanted.reranker], 2),
                "pair": round(whole, 2),
                "models": {stage: round(found, 2) for stage, found in sums.items()},
            },
            "reliability": asdict(reliability(ScoredPairs.of([together[k]]), calibration)),
        }
    shutil.rmtree(run.pair, ignore_errors=True)
    shortlist, reranker = None if alone else matchers[wanted.shortlist].cpu(), matchers[wanted.reranker].cpu()
    save_pair(run.pair, shortlist, reranker, calibration, measured=measured, half=wanted.half)
    watcher.notice(f"the pair is in {run.pair}")


def _as_saved(matcher: Matcher, wanted: PairConfig) -> Matcher:
    """With the weights that the files will have: figures are of what is used later."""
    return matcher.half().float() if wanted.half else matcher
