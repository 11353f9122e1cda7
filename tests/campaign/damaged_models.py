"""Damaged model folders, run folders, checkpoints and configurations."""

import random
import shutil
import time
from pathlib import Path

from tests.campaign import made
from tests.campaign.kill_work import STAGES, compare_runs, reference_run
from tests.campaign.mutation import damage_file, damage_json, damage_toml
from tests.campaign.verdict import Verdict
from tests.campaign.workplace import Workplace

_TRIES = 25


def damaged_model(rng: random.Random, place: Workplace) -> Verdict:
    """Damage a file of a pair of models: a sentence, or it works as before."""
    healthy = made.model(place.base)
    photo = next(made.pool(place.base).glob("*.png"))
    for number in range(_TRIES):
        model = place.folder / f"model-{number}"
        shutil.copytree(healthy, model)
        _damage_some(rng, model)
        place.quick("score", photo, "a red circle", "--model", model, "--runtime", "torch", codes=(0, 1, 2, 3))
        shutil.rmtree(model)
    return place.verdict


def damaged_run(rng: random.Random, place: Workplace) -> Verdict:
    """Damage a file of a run that stopped half way: told in a sentence, or it ends as an undisturbed one."""
    reference = reference_run(place.base)
    half = _half_run(place)
    for number in range(8):
        run = place.folder / f"run-{number}"
        shutil.copytree(half, run, symlinks=True)
        files = [path for path in sorted(run.rglob("*")) if path.is_file() and not path.is_symlink()]
        chosen = rng.choice([path for path in files if path.name != "machine.json" and path.suffix != ".png"])
        told = damage_file(rng, chosen)
        findings = len(place.verdict.findings)
        ended = place.quick("train", made.recipe(place.base), "--out", run, codes=(0, 1, 2, 3))
        if ended.code == 0 and chosen.name == "checkpoint.pt" and chosen.exists():
            verdict = Verdict()
            compare_runs(reference, run, verdict)
            if not verdict.passed:
                text = f"{told}; the run went on without a word and ended otherwise: {verdict.findings[0].text}"
                place.verdict.add("wrong", text, ended.command, ended.err)
        place.quick("runs", run, codes=(0, 1, 2, 3))
        if len(place.verdict.findings) > findings:
            place.verdict.add("wrong", f"before that: {chosen.relative_to(run)}: {told}", count=0)
        shutil.rmtree(run)
    return place.verdict


def _half_run(place: Workplace) -> Path:
    """The tiny run, killed in its second stage."""
    run = place.base / "half-run"
    if not run.exists():
        part = place.base / "half-run.part"
        shutil.rmtree(part, ignore_errors=True)
        with place.running("train", made.recipe(place.base), "--out", part) as (process, _):
            while process.poll() is None and not (part / STAGES[1] / "checkpoint.pt").exists():
                time.sleep(0.005)
            time.sleep(0.2)
        part.rename(run)
    return run


def damaged_configuration(rng: random.Random, place: Workplace) -> Verdict:
    """Change lines of a configuration: trained for a moment, or told in a sentence."""
    text = made.recipe(place.base).read_text(encoding="utf-8")
    for number in range(_TRIES):
        changed = text
        for _ in range(rng.choice((1, 1, 2, 4))):
            changed = damage_toml(rng, changed)
        file, run = place.folder / f"changed-{number}.toml", place.folder / f"run-{number}"
        file.write_text(changed, encoding="utf-8", errors="replace")
        findings = len(place.verdict.findings)
        place.quick("train", file, "--out", run, "--minutes", 0.005, codes=(0, 1, 2, 3, 4))
        if len(place.verdict.findings) == findings:
            file.unlink()
        shutil.rmtree(run, ignore_errors=True)
    return place.verdict


def _damage_some(rng: random.Random, folder: Path) -> str:
    chosen = rng.choice([path for path in sorted(folder.rglob("*")) if path.is_file()])
    if chosen.suffix == ".json" and rng.random() < 0.7:
        before = chosen.read_text(encoding="utf-8")
        chosen.write_text(damage_json(rng, before), encoding="utf-8")
        return f"{chosen.name}: other values"
    return damage_file(rng, chosen)
