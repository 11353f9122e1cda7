"""SIGKILL at random moments: extract and train; the end is, bit by bit, that of an undisturbed run."""

import random
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import torch

from smlstm.data import FeatureStore
from smlstm.errors import SmlstmError
from smlstm.training import read_config, train
from smlstm.training.checkpoint import read_checkpoint
from smlstm.training.folder import read_metrics
from tests.campaign import made
from tests.campaign.verdict import Verdict
from tests.campaign.workplace import Workplace

STAGES = ("mnlm", "smlstm")
_TIMES = {"seconds", "pairs_per_second", "dev_seconds"}


def kill_extract(rng: random.Random, place: Workplace) -> Verdict:
    """Kill `smlstm extract` a few times; the store holds every photo as an undisturbed one does."""
    photos, store = made.pool(place.base), place.folder / "store"
    reference = reference_store(place)
    command = ("extract", photos, "--out", store, "--grid", 2, "--runtime", "torch", "--batch", rng.choice((2, 5, 16)))
    for _ in range(rng.randint(1, 4)):
        place.kill(rng, *command, after=store)
    place.run(*command)
    place.run("data", "check", store)
    compare_stores(reference, store, place.verdict)
    return place.verdict


def reference_store(place: Workplace) -> Path:
    """Features of the pool, extracted without disturbance."""
    store = place.base / "reference-store"
    if not store.exists():
        part = place.base / "reference-store.part"
        shutil.rmtree(part, ignore_errors=True)
        place.run("extract", made.pool(place.base), "--out", part, "--grid", 2, "--runtime", "torch")
        part.rename(store)
    return store


def compare_stores(expected: Path, found: Path, verdict: Verdict) -> None:
    """Every record of one store must be in the other, the same."""
    try:
        with FeatureStore.open(expected) as one, FeatureStore.open(found) as other:
            lost = sorted(set(one.keys()) - set(other.keys()))
            if lost:
                verdict.add("lost", f"{len(lost)} photos are not in the store: {lost[:5]}", count=len(lost))
            strange = sorted(set(other.keys()) - set(one.keys()))
            if strange:
                verdict.add("wrong", f"the store has {strange[:5]}, which it should not", count=len(strange))
            shared = sorted(set(one.keys()) & set(other.keys()))
            pairs = [(one.read([key]), other.read([key])) for key in shared]
    except SmlstmError as error:
        verdict.add("wrong", f"the store cannot be read: {error}")
        return
    for key, (first, second) in zip(shared, pairs, strict=True):
        # As many photos at a time as there were left: the last bits may differ by that.
        if not all(np.allclose(a, b, rtol=1e-2, atol=1e-3) for a, b in zip(first, second, strict=True)):
            verdict.add("wrong", f"the features of {key} differ from those of an undisturbed store")


def kill_train(rng: random.Random, place: Workplace) -> Verdict:
    """Kill `smlstm train` a few times; weights, moments and metrics end as in an undisturbed run."""
    recipe, run = made.recipe(place.base), place.folder / "run"
    reference = reference_run(place.base)
    for _ in range(rng.randint(1, 5)):
        place.kill(rng, "train", recipe, "--out", run, after=run)
    place.run("train", recipe, "--out", run)
    compare_runs(reference, run, place.verdict)
    return place.verdict


def reference_run(base: Path) -> Path:
    """The tiny run, trained without disturbance."""
    run = base / "reference-run"
    if not (run / "whole").exists():
        shutil.rmtree(run, ignore_errors=True)
        train(read_config(made.recipe(base)), run)
        (run / "whole").touch()
    return run


def compare_runs(expected: Path, found: Path, verdict: Verdict) -> None:
    """Two runs must be the same, except for what a clock says."""
    for stage in STAGES:
        try:
            one, other = (read_checkpoint(run / stage / "checkpoint.pt") for run in (expected, found))
            weights = [(run / stage / "model" / "model.safetensors").read_bytes() for run in (expected, found)]
        except (SmlstmError, OSError) as error:
            verdict.add("lost", f"what {stage} trained cannot be read: {error}")
            continue
        if one.progress.step != other.progress.step:
            verdict.add("wrong", f"{stage} made {other.progress.step} steps, not {one.progress.step}")
        different = [name for name, tensor in one.model.items() if not torch.equal(tensor, other.model[name])]
        if different:
            verdict.add("wrong", f"{stage}: weights differ from an undisturbed run: {different[:3]}")
        moments = zip(one.optimiser["state"].values(), other.optimiser["state"].values(), strict=True)
        if not all(torch.equal(a["exp_avg_sq"], b["exp_avg_sq"]) for a, b in moments):
            verdict.add("wrong", f"{stage}: the optimiser's moments differ from an undisturbed run")
        if weights[0] != weights[1]:
            verdict.add("wrong", f"{stage}: the best model differs from that of an undisturbed run")
        if _told(expected / stage) != _told(found / stage):
            verdict.add("wrong", f"{stage}: metrics.jsonl differs from an undisturbed run")


def _told(stage: Path) -> list[dict[str, Any]]:
    lines = read_metrics(stage / "metrics.jsonl")
    return [{key: value for key, value in line.items() if key not in _TIMES} for line in lines]
