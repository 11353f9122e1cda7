"""`[[data]]` of a configuration: a dataset and where its features are."""

from pathlib import Path
from typing import Any

from pydantic import Field, field_validator

from smlstm.training.settings import Positive, Settings


class DataConfig(Settings):
    """One dataset and its features; several are joined."""

    dataset: Path = Field(description="folder or file of the dataset, relative to the configuration file")
    features: Path | None = Field(default=None, description="its feature store, relative to the configuration file")
    views: list[Path] = Field(
        default=[],
        description="features of its training photos seen otherwise (`smlstm extract --mirrored`, or `--augmented "
        "SEED`): each time, one of an image's views is drawn",
    )
    lower: list[Path] = Field(
        default=[],
        description="what stages with `tuning` read: lower features of training photos (`smlstm extract --below 15`), "
        "any views",
    )
    dev_lower: Path | None = Field(
        default=None,
        description="lower features of its dev photos as they are, of another grid if wanted; by default those of "
        "`lower` that show photos as they are",
    )
    entities: Path | None = Field(
        default=None,
        description="phrases of its captions with boxes, in the layout of Flickr30k Entities: pointing is measured on "
        "dev after each epoch, and a stage may learn from boxes",
    )
    captions: Positive | None = Field(
        default=None,
        description="so many of each training photo's captions, its first ones; all by default. A language model takes "
        "as long to read a caption as training takes to learn from it",
    )
    split_scheme: str | None = Field(default=None, description="which published splits, where there are several")
    dev: bool = Field(
        default=True,
        description="whether its dev split is measured; false for data that is only there to learn from",
    )

    @field_validator("views", "lower", mode="before")
    @classmethod
    def _one_is_a_list(cls, given: Any) -> Any:
        return [given] if isinstance(given, str | Path) else given
