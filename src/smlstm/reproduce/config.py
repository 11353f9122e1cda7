"""What is reproduced: a run's configuration, and the sweeps that are made of its sm-LSTM stage.

[[data]], [vocabulary]   as for `smlstm train`
[stage.mnlm]             where the others start
[stage.smlstm]           the one that is varied
[stage.scan]             if a baseline's settings should be its own
[reproduce]              which values; by default the paper's
"""

import os
from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

from smlstm.training.config import RunConfig
from smlstm.training.config_file import read_config_as

Baseline = Literal["oem", "vse++", "dvsa", "scan"]


class SweepConfig(BaseModel):
    """Which runs are made, and how they are measured."""

    model_config = ConfigDict(extra="forbid")

    split: str = Field(default="test", description="what everything is measured on; models are chosen on dev")
    images: int | None = Field(default=None, ge=2, description="only so many images of it, from the first")
    minutes: float | None = Field(
        default=None, gt=0, allow_inf_nan=False, description="the most that one run may train; --minutes wins"
    )
    variants: list[Literal["mean", "att", "ctx", "full"]] = Field(
        default=["mean", "att", "ctx", "full"], description="the paper's tables 1 and 2"
    )
    steps: list[Annotated[int, Field(gt=0)]] = Field(default=[1, 2, 3, 4, 5], description="T, the paper's table 3")
    lambdas: list[Annotated[float, Field(ge=0, allow_inf_nan=False)]] = Field(
        default=[0, 1, 10, 100, 1000], description="the paper's table 4"
    )
    modulations: list[Literal["gated", "joint", "separate"]] = Field(
        default=["gated", "joint", "separate"], description="readings of context-modulated attention"
    )
    comparisons: list[Literal["additive", "product"]] = Field(
        default=["additive", "product"], description="readings of the two-way MLP"
    )
    baselines: list[Baseline] = Field(default=["oem", "vse++", "dvsa", "scan"], description="beside MNLM")
    attention_images: int = Field(default=100, ge=2, description="photos for deletion and insertion")

    @field_validator("variants", "steps", "lambdas", "modulations", "comparisons", "baselines")
    @classmethod
    def _names_each_once(cls, values: list[Any]) -> list[Any]:
        twice = [value for value, count in Counter(values).items() if count > 1]
        if twice:
            raise PydanticCustomError("twice", "{value} is there twice", {"value": f"{twice[0]}"})
        return values


class ReproduceConfig(RunConfig):
    """A run and its sweeps."""

    reproduce: SweepConfig = SweepConfig()

    @model_validator(mode="after")
    def _has_a_stage_to_vary(self) -> "ReproduceConfig":
        for kind in ("sm-lstm", "mnlm"):
            count = sum(stage.kind == kind for stage in self.stage.values())
            if count != 1:
                raise PydanticCustomError(
                    "stage",
                    "stage: there must be one stage of kind {kind}, not {count}: "
                    "[stage.mnlm] is where runs start, [stage.smlstm] is what is varied",
                    {"kind": kind, "count": count},
                )
        return self


def read_reproduce_config(path: str | os.PathLike[str], settings: Sequence[str] = ()) -> ReproduceConfig:
    """Read it from TOML; all problems at once."""
    return read_config_as(ReproduceConfig, path, settings)
