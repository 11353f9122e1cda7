"""The end of a run that makes a pair: two of its models, what their common score means, in one folder."""

import shutil
from dataclasses import asdict
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from smlstm.matcher import Matcher
from smlstm.pretrained.calibration import PRIOR, ScoredPairs, fit_calibration, reliability, weight_of
from smlstm.pretrained.pair import save_pair
from smlstm.training.config import PairConfig, RunConfig
from smlstm.training.dev import DevMetrics, dev_scores
from smlstm.training.examples import read_examples
from smlstm.training.folder import RunFolder
from smlstm.training.watching import Watcher

Scores = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int64]


@torch.inference_mode()
def make_pair(config: RunConfig, wanted: PairConfig, run: RunFolder, device: torch.device, watcher: Watcher) -> None:
    """Score all of dev with both models, fit the calibration, and write `pair/`."""
    shortlist, reranker = (
        _as_saved(Matcher.load(run.stage(stage).best_model), wanted.half).to(device)
        for stage in (wanted.shortlist, wanted.reranker)
    )
    names: list[str] = []
    matrices: list[tuple[Scores, Scores, Integers]] = []
    for entry in config.data:
        if not entry.dev:
            continue
        _, dev, _ = read_examples([entry])
        names.append(entry.dataset.name)
        watcher.notice(f"calibrating on dev of {names[-1]}: {len(dev):,} captions")
        scored = []
        for stage, matcher in ((wanted.shortlist, shortlist), (wanted.reranker, reranker)):
            with watcher.scoring(f"Scoring dev of {names[-1]} with {stage}") as progress:
                scored.append(dev_scores(matcher, dev, progress))
        (first, image_of), (second, _) = scored
        matrices.append((first, second, image_of))
    weight = weight_of([first for first, _, _ in matrices], [second for _, second, _ in matrices])
    together = [(second + np.float32(weight) * first, image_of) for first, second, image_of in matrices]
    calibration = fit_calibration(ScoredPairs.of(together), weight)
    measured: dict[str, Any] = {"prior": PRIOR, "dev": {}}
    for name, (first, second, image_of), whole in zip(names, matrices, together, strict=True):
        sums = [DevMetrics.of(scores, image_of).sum for scores in (first, second, whole[0])]
        watcher.notice(
            f"dev Sum on {name}: {wanted.shortlist} {sums[0]:.1f}, {wanted.reranker} {sums[1]:.1f}, both {sums[2]:.1f}"
        )
        measured["dev"][name] = {
            "images": len(first),
            "captions": len(image_of),
            "sum": {"shortlist": round(sums[0], 2), "reranker": round(sums[1], 2), "pair": round(sums[2], 2)},
            "reliability": asdict(reliability(ScoredPairs.of([whole]), calibration)),
        }
    shutil.rmtree(run.pair, ignore_errors=True)
    save_pair(run.pair, shortlist.cpu(), reranker.cpu(), calibration, measured=measured, half=wanted.half)
    watcher.notice(f"the pair is in {run.pair}")


def _as_saved(matcher: Matcher, half: bool) -> Matcher:
    """With the weights that the files will have: figures are of what is used later."""
    return matcher.half().float() if half else matcher
