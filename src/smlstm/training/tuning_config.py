"""`[stage.NAME.tuning]` and `[stage.NAME.features]` of a configuration: a backbone that learns, and who reads it."""

from typing import Annotated

from pydantic import Field

from smlstm.training.settings import Positive, Settings


class TuningConfig(Settings):
    """How the backbone's blocks learn that lie above the lower features."""

    learning_rate: float = Field(
        default=1e-4,
        ge=0,
        description="the peak, for the backbone alone; it rises and falls with the stage's own. 0: it stays as it "
        "starts, which needs no features of its own on disk",
    )
    weight_decay: float = Field(default=0.0, ge=0, description="of the backbone's convolutions; biases are not decayed")


class TunedFeaturesConfig(Settings):
    """Features of a tuned backbone, extracted in the run, once its stage is trained."""

    of: str = Field(description="the earlier stage that tuned it")
    grid: Positive | None = Field(
        default=None, description="side of the square of regions; by default the one that the stage was measured on"
    )
    augmented: list[Annotated[int, Field(ge=0)]] = Field(
        default=[], description="seeds of augmented views of the training photos, beside the photos as they are"
    )
