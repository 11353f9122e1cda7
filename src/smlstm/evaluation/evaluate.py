"""An evaluation from saved models to a report: everything is checked first, then extracted, scored and measured."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from smlstm.data import Dataset, Features
from smlstm.errors import ConfigurationError
from smlstm.evaluation.correlation import Correlation
from smlstm.evaluation.feature_plan import Extracted, FeaturePlan, plan_features
from smlstm.evaluation.gallery import Gallery, read_gallery
from smlstm.evaluation.judgement import Judgements, correlate
from smlstm.evaluation.matrices import Scores, Sum, reserve
from smlstm.evaluation.models import Candidate
from smlstm.evaluation.protocols import refuse_broken_folds
from smlstm.evaluation.results import Comparison, Protocol, Result, comparisons, measure
from smlstm.evaluation.terms import score_terms, with_terms
from smlstm.matching.matcher import Matcher
from smlstm.scoring import Cascade, Stored, progress_bar, score_all, score_pairs
from smlstm.scoring.precision import Precision
from smlstm.scoring.progress import ProgressCallback

EnsembleOf = Literal["sum", "standardised", "none"]
Bar = Callable[[str], AbstractContextManager[Extracted]]
Named = tuple[str, Scores]


@dataclass(frozen=True, eq=False)
class Report:
    """Rows of a table and tests between them."""

    gallery: Gallery
    protocol: Protocol
    results: list[Result]
    comparisons: list[Comparison]

    def to_dict(self) -> dict[str, Any]:
        """Give the numbers as JSON would write them."""
        return {
            "data": self.gallery.data,
            "split": self.gallery.split,
            "protocol": self.protocol,
            "images": len(self.gallery.keys),
            "captions": len(self.gallery.captions),
            "fingerprint": self.gallery.fingerprint,
            "results": [result.to_dict() for result in self.results],
            "comparisons": [each.to_dict() for each in self.comparisons],
        }


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Models and what they are to rank, checked; nothing long has happened yet."""

    candidates: Sequence[Candidate]
    gallery: Gallery
    plans: dict[str, FeaturePlan]
    precision: Precision
    outputs: dict[str, Path] = field(default_factory=dict)
    cascades: dict[str, Cascade] = field(default_factory=dict)
    terms: bool = False
    """Whether each model's terms are measured beside it."""
    notes: Sequence[str] = ()

    @classmethod
    def plan(
        cls,
        candidates: Sequence[Candidate],
        dataset: Dataset,
        split: str,
        *,
        images: int | None = None,
        protocol: Protocol = "all",
        features: Path | None = None,
        grid: int | None = None,
        precision: Precision = "float32",
        save: Path | None = None,
        cascade: tuple[int, int] | None = None,
        shortlister: Candidate | None = None,
        terms: bool = False,
    ) -> "Evaluation":
        """Check that it all fits together; `save` is a folder for the matrices.

        `cascade`: score only a shortlist of so many sentences an image and images a sentence, drawn up by the
        shortlister, or by each model's own global score. `terms`: measure each model's terms beside it.
        """
        if terms and (save is not None or cascade is not None):
            raise ConfigurationError("terms are neither saved nor scored by a cascade: leave one of the two out")
        gallery, records, notes = read_gallery(dataset, split, images)
        if protocol == "folds":
            refuse_broken_folds(len(gallery.keys))
        plans = plan_features(candidates, dataset, records, features=features, grid=grid)
        outputs: dict[str, Path] = {}
        if save is not None:
            for candidate in candidates:
                spec = plans[candidate.matcher.config.backbone].spec
                outputs[candidate.name] = reserve(save, candidate, gallery, spec, precision)
        for candidate in candidates if terms else ():
            with_terms(candidate.name, candidate.matcher)
        cascades: dict[str, Cascade] = {}
        if cascade is not None:
            for candidate in candidates:
                plan = plans[candidate.matcher.config.backbone]
                if shortlister is not None:
                    shortlister.refuse_other_features(plan.spec, plan.where)
                cheap = None if shortlister is None else shortlister.matcher
                cascades[candidate.name] = Cascade(cheap, candidate.matcher, *cascade)
        return cls(candidates, gallery, plans, precision, outputs, cascades, terms, notes)

    def score(self, extraction: Bar | None = None, show: bool = False) -> Iterator[Named]:
        """Each model's matrix in turn; only one is held at a time if the caller lets go of it."""
        features = complete(self.plans, extraction)
        for candidate in self.candidates:
            store = features[candidate.matcher.config.backbone]
            out = self.outputs.get(candidate.name)
            if out is not None and out.exists():  # finished by an earlier run of this very job
                yield candidate.name, np.load(out, mmap_mode="r")
                continue
            source = Stored(store, store.rows(self.gallery.keys))

            def score(
                name: str, matcher: Matcher | Cascade, source: Stored = source, out: Path | None = out
            ) -> NDArray[np.float32]:
                with _bar(name, show) as progress:
                    return score_all(
                        matcher, source, self.gallery.captions, out=out, precision=self.precision, progress=progress
                    )

            if self.terms:
                yield from score_terms(candidate.name, with_terms(candidate.name, candidate.matcher), score).items()
            else:
                yield candidate.name, score(candidate.name, self.cascades.get(candidate.name, candidate.matcher))


def report(
    matrices: Iterable[Named],
    gallery: Gallery,
    *,
    protocol: Protocol = "all",
    ensemble: EnsembleOf = "sum",
    every_pair: bool = False,
) -> Report:
    """Measure matrices and, if there are several, their sum; test each against the first, or every pair."""
    if protocol == "folds":
        refuse_broken_folds(len(gallery.keys))
    total = Sum(standardised=ensemble == "standardised")
    results = []
    for name, scores in matrices:
        results.append(measure(name, scores, gallery.image_of, protocol))
        if ensemble != "none":
            total.add(scores)
    if len(results) > 1 and total.scores is not None:
        results.append(measure(ensemble_name(len(results), ensemble), total.scores, gallery.image_of, protocol))
    return Report(gallery, protocol, results, comparisons(results, every_pair))


def judge(
    candidates: Sequence[Candidate],
    judgements: Judgements,
    plans: dict[str, FeaturePlan],
    *,
    precision: Precision = "float32",
    ensemble: EnsembleOf = "sum",
    extraction: Bar | None = None,
    show: bool = False,
) -> dict[str, Correlation]:
    """Score the rated pairs alone; each model's correlation with the ratings and, if there are several, their sum's."""
    features = complete(plans, extraction)
    keys = [record.key for record in judgements.records]
    total = Sum(standardised=ensemble == "standardised")
    found: dict[str, Correlation] = {}
    for candidate in candidates:
        store = features[candidate.matcher.config.backbone]
        with _bar(candidate.name, show) as progress:
            scores = score_pairs(
                candidate.matcher,
                Stored(store, store.rows(keys)),
                judgements.captions,
                judgements.pairs,
                precision=precision,
                progress=progress,
            )
        found[candidate.name] = correlate(scores, judgements)
        total.add(scores)
    if len(found) > 1 and ensemble != "none" and total.scores is not None:
        found[ensemble_name(len(found), ensemble)] = correlate(total.scores, judgements)
    return found


def ensemble_name(members: int, ensemble: EnsembleOf) -> str:
    """What a table calls the sum of so many matrices."""
    return f"{ensemble} of {members}"


def complete(plans: dict[str, FeaturePlan], extraction: Bar | None) -> dict[str, Features]:
    """Extract what the plans lack."""
    found = {}
    for backbone, plan in plans.items():
        if plan.backbone is None or extraction is None:
            found[backbone] = plan.complete()
        else:
            with extraction(plan.backbone.name) as progress:
                found[backbone] = plan.complete(progress)
    return found


def _bar(name: str, show: bool) -> AbstractContextManager[ProgressCallback | None]:
    return progress_bar(f"Scoring with {name}") if show else nullcontext()
