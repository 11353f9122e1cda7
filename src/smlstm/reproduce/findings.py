"""What agrees with the paper and what does not, computed from the numbers.

A statement of the paper is that one Sum is above another. Ours agrees if the 95 % interval of our paired difference
lies above 0, disagrees if it lies below, and is undecided otherwise.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from smlstm.evaluation import Difference
from smlstm.reproduce.measurements import ENSEMBLE
from smlstm.reproduce.paper import paper_sum, paper_table
from smlstm.reproduce.report_tables import SWEEPS, Found, Table, difference_text

Verdict = Literal["agrees", "disagrees", "undecided"]
_BEST = {"steps": "3", "lambdas": "100"}
_CHAIN = (
    ("sm-LSTM-att", "sm-LSTM-mean"),
    ("sm-LSTM-ctx", "sm-LSTM-att"),
    ("sm-LSTM", "sm-LSTM-ctx"),
    ("sm-LSTM*", "sm-LSTM"),
    ("sm-LSTM", "MNLM"),
)


@dataclass(frozen=True)
class Finding:
    """A statement of the paper and what ours says to it."""

    above: str
    below: str
    printed: str
    ours: Difference
    verdict: Verdict

    @property
    def text(self) -> str:
        """The statement, in short."""
        return f"{self.above} above {self.below}"

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        interval = self.ours.difference
        return {
            "above": self.above,
            "below": self.below,
            "paper": self.printed,
            "difference": interval.value,
            "interval": [interval.low, interval.high],
            "p": self.ours.p,
            "verdict": self.verdict,
        }


def judge(ours: Difference) -> Verdict:
    """Whether an interval lies above 0, below it, or holds it."""
    if ours.difference.low > 0:
        return "agrees"
    return "disagrees" if ours.difference.high < 0 else "undecided"


def findings(found: Found) -> list[Finding]:
    """Every statement of the paper's tables that our runs can speak to."""
    return [*_order_of_variants(found), *_best_of_sweeps(found)]


def _order_of_variants(found: Found) -> Iterator[Finding]:
    for above, below in _CHAIN:
        ours = found.difference(found.run_of(above), found.run_of(below))
        if ours is not None:
            printed = ", ".join(
                f"{(paper_sum(table, above) or 0) - (paper_sum(table, below) or 0):+.1f} on {name}"
                for table, name in (("flickr30k", "Flickr30k"), ("coco_1k", "COCO"))
            )
            yield Finding(above, below, printed, ours, judge(ours))


def _best_of_sweeps(found: Found) -> Iterator[Finding]:
    for part, best in _BEST.items():
        _, label, table = SWEEPS[part]
        top = paper_sum(table, best)
        for row in paper_table(table):
            ours = found.difference(found.plan.run(part, best), found.plan.run(part, row.name))
            if ours is None or top is None or row.sum is None:
                continue
            printed = f"{top - row.sum:+.1f} on Flickr30k"
            yield Finding(f"{label} = {best}", f"{label} = {row.name}", printed, ours, judge(ours))


def paragraphs(found: Found, judged: Sequence[Finding]) -> list[str]:
    """The whole in words."""
    texts = [_agreement(judged)] if judged else []
    texts += [
        text for text in (_variants_in_order(found), _beyond(found), _centre(found), removal_verdict(found)) if text
    ]
    return texts or ["Nothing can be compared yet: no two runs were measured."]


def findings_table(judged: Sequence[Finding]) -> Table:
    """Every statement with its numbers."""
    rows = [
        [each.text, each.printed, difference_text(each.ours), f"{each.ours.p:.2g}", each.verdict] for each in judged
    ]
    columns = ("statement of the paper", "paper, Sum", "ours, Sum (95% interval)", "p", "ours")
    note = "Paired differences on the same images, not corrected for the number of tests."
    return Table("Statement by statement", columns, rows, note)


def _agreement(judged: Sequence[Finding]) -> str:
    parts = []
    for verdict in ("agrees", "disagrees", "undecided"):
        these = [finding.text for finding in judged if finding.verdict == verdict]
        if these:
            parts.append(f"{verdict.capitalize()} ({len(these)}): {'; '.join(these)}.")
    noun = "statement" if len(judged) == 1 else "statements"
    return (
        f"The paper's tables make {len(judged)} {noun} that one Sum is above another which can be checked here. Ours "
        f"agrees where its 95% interval lies above 0, disagrees where it lies below. {' '.join(parts)}"
    )


def _variants_in_order(found: Found) -> str:
    names = [*((point.value, point.run) for point in found.plan.of("variants")), ("ensemble", ENSEMBLE)]
    sums = [(label, each) for label, run in names if (each := found.of(run)) is not None]
    if len(sums) < 2:
        return ""
    ranked = sorted(sums, key=lambda item: -item[1].result.metrics.sum)
    told = ", ".join(
        f"{label} {each.result.metrics.sum:.1f} ({each.result.intervals['sum'].low:.1f} to "
        f"{each.result.intervals['sum'].high:.1f})"
        for label, each in ranked
    )
    return f"Our order by Sum: {told}. The paper's: ensemble, full, ctx, att, mean."


def _beyond(found: Found) -> str:
    """What the paper does not have, against the base."""
    told = []
    for part in ("modulations", "comparisons", "baselines"):
        for point in found.plan.of(part):
            ours = found.difference(point.run, found.plan.base)
            if ours is not None:
                side = {"agrees": "better", "disagrees": "worse", "undecided": "undecided"}[judge(ours)]
                told.append(f"{point.value} {difference_text(ours)}, {side}")
    return f"Beyond the paper, Sum against the base model: {'; '.join(told)}." if told else ""


def _centre(found: Found) -> str:
    told = []
    for name, seen in found.attention.items():
        shares = seen["average"]["central_quarter"]
        steps = ", ".join(f"{share:.1%}" for share in shares)
        told.append(f"{name} has {steps}: {centre_verdict(shares)}")
    if not told:
        return ""
    return (
        "Centre bias: the paper sees the first step look at the centre, and later ones elsewhere. Saliency in the "
        f"central quarter of the photos (even: 25%), step by step: {'; '.join(told)}."
    )


def centre_verdict(shares: Sequence[float]) -> str:
    """Whether the first step looks at the centre, and later ones elsewhere; a hundredth is no difference."""
    if shares[0] <= 0.26:
        return "the first step does not prefer the centre"
    if len(shares) == 1:
        return "its one step prefers the centre"
    if max(shares[1:]) < shares[0] - 0.01:
        return "as in the paper"
    return "the first step prefers the centre, but not every later one does so less"


def removal_verdict(found: Found) -> str:
    """What removing attended regions does; nothing is to be read off a score that all regions together do not raise."""
    told, silent = [], []
    for name, seen in found.attention.items():
        for removal in seen["removal"]:
            curve, model = removal["deletion"], f"{name} (filler {removal['filler']})"
            if curve["relative"] is None:
                silent.append(model)
                continue
            area = curve["difference"]
            more = "more than" if area["low"] > 0 else "less than" if area["high"] < 0 else "no differently from"
            told.append(f"{model} {more} random ones")
    sentences = []
    if told:
        sentences.append(f"Removing the attended regions hurts the score of {'; '.join(told)}.")
    if silent:
        sentences.append(
            f"Deletion and insertion say nothing about {'; '.join(silent)}: an image of which all is removed scores as "
            "high as the whole one."
        )
    return " ".join(sentences)
