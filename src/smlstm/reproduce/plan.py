"""The runs: one stage of a configuration is varied, one setting at a time, and everything else stays.

All runs are stages of one configuration and lie in one folder, so that `smlstm runs` lists them and each is resumed
like any other. A point of a sweep whose settings are the base's own is the base: it is trained once.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from smlstm.errors import ConfigurationError
from smlstm.reproduce.config import ReproduceConfig
from smlstm.saving import KINDS
from smlstm.training.config import RunConfig, StageConfig, describe

PARTS = ("variants", "steps", "lambdas", "modulations", "comparisons", "baselines", "attention")
"""What `--only` chooses from; attention needs no runs of its own."""
_EMBEDDING = ("oem", "vse++")
"""Baselines that are trained as MNLM is; the others look at regions and are trained as sm-LSTM is."""


@dataclass(frozen=True)
class Point:
    """A value of a sweep, and the run that has it."""

    part: str
    value: str
    run: str


@dataclass(frozen=True)
class Plan:
    """All runs as stages of one configuration, and what each is for."""

    config: RunConfig
    mnlm: str
    base: str
    points: tuple[Point, ...]

    def of(self, part: str) -> list[Point]:
        """The points of one part, in the order of the configuration."""
        return [point for point in self.points if point.part == part]

    def run(self, part: str, value: str) -> str | None:
        """The run of a value; None if it is not part of the plan."""
        return next((point.run for point in self.of(part) if point.value == value), None)

    def runs(self, parts: Sequence[str] = PARTS) -> list[str]:
        """Runs that some parts need, in the order in which they are trained."""
        wanted = {point.run for point in self.points if point.part in parts}
        if "attention" in parts:
            wanted.update(self.attending())
        if "baselines" in parts:
            wanted.add(self.mnlm)
        wanted |= {source for run in wanted for source in self._sources(run)}
        return [name for name in self.config.stage if name in wanted]

    def attending(self) -> list[str]:
        """Runs whose attention is looked at: the base, and the one without context."""
        found = [self.base, self.run("variants", "att")]
        runs = [name for name in dict.fromkeys(found) if name is not None]
        return [name for name in runs if self.config.stage[name].model["variant"] in ("att", "full")]

    def _sources(self, run: str) -> list[str]:
        return [name for name in self.config.stage[run].sources if name in self.config.stage]


def make_plan(config: ReproduceConfig) -> Plan:
    """Lay out every run; settings that cannot be are refused here."""
    names = {stage.kind: name for name, stage in config.stage.items()}
    mnlm, base = names["mnlm"], names["sm-lstm"]
    stages = {name: stage for name, stage in config.stage.items() if name in (mnlm, base)}
    points: list[Point] = []

    def add(part: str, value: str, name: str, stage: StageConfig) -> None:
        if stage == stages[base]:
            name = base
        if name in stages and stages[name] != stage:
            raise ConfigurationError(f'the run "{name}" would have the name of a stage with other settings: rename it')
        stages[name] = stage
        points.append(Point(part, value, name))

    sweep, original = config.reproduce, config.stage[base]
    for name, stage in config.stage.items():
        if name not in stages and stage.kind not in sweep.baselines:
            raise ConfigurationError(f"stage.{name}: no run of the reproduction is of kind {stage.kind}: leave it out")
    for variant in sweep.variants:
        add("variants", variant, variant, _vary(original, variant, model={"variant": variant}))
    for steps in sweep.steps:
        add("steps", str(steps), f"steps-{steps}", _vary(original, f"steps {steps}", model={"steps": steps}))
    for weight in sweep.lambdas:
        changed = _vary(original, f"lambda {weight:g}", objective={"regulariser": weight})
        add("lambdas", f"{weight:g}", f"lambda-{weight:g}".replace(".", "_").replace("+", ""), changed)
    for modulation in sweep.modulations:
        add("modulations", modulation, modulation, _vary(original, modulation, model={"modulation": modulation}))
    for comparison in sweep.comparisons:
        add("comparisons", comparison, comparison, _vary(original, comparison, model={"comparison": comparison}))
    for kind in sweep.baselines:
        own = next(((name, stage) for name, stage in config.stage.items() if stage.kind == kind), None)
        template = config.stage[mnlm] if kind in _EMBEDDING else original
        name, stage = own or (kind.replace("+", "p"), _baseline(kind, template))
        add("baselines", kind, name, stage)
    plain = RunConfig.model_construct(**{name: getattr(config, name) for name in RunConfig.model_fields})
    return Plan(plain.model_copy(update={"stage": stages}), mnlm, base, tuple(points))


def _vary(base: StageConfig, what: str, **changes: dict[str, Any]) -> StageConfig:
    """The base stage with some settings of its model or objective changed."""
    fields = base.model_dump()
    return _stage({**fields, **{part: {**fields[part], **change} for part, change in changes.items()}}, what)


def _baseline(kind: str, template: StageConfig) -> StageConfig:
    """A baseline of the template's sizes, trained as it is but with the objective of its own paper."""
    known = KINDS[kind].config_type.model_fields
    fields = template.model_dump(exclude={"kind", "model", "objective"})
    drawn = {"negatives": template.objective.negatives} if template.negatives == "uniform" else {}
    sizes = {name: value for name, value in template.model.items() if name in known}
    return _stage({"kind": kind, **fields, "model": sizes, "objective": drawn}, kind)


def _stage(fields: dict[str, Any], what: str) -> StageConfig:
    try:
        return StageConfig.model_validate(fields)
    except ValidationError as error:
        problems = "; ".join(describe(problem) for problem in error.errors())
        raise ConfigurationError(f"the run of {what} cannot be: {problems}") from None


def chosen_parts(only: Iterable[str] | None) -> tuple[str, ...]:
    """Parts by name; an unknown one is refused with those that are known."""
    wanted = [name.strip() for name in only or PARTS if name.strip()]
    unknown = [name for name in wanted if name not in PARTS]
    if unknown or not wanted:
        raise ConfigurationError(
            f'there is no part "{unknown[0] if unknown else ""}" to reproduce; parts are {", ".join(PARTS)}'
        )
    return tuple(part for part in PARTS if part in wanted)
