"""What all parts of a configuration have in common: an unknown setting is a mistake."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Positive = Annotated[int, Field(gt=0)]


class Settings(BaseModel):
    """A table of a configuration."""

    model_config = ConfigDict(extra="forbid", protected_namespaces=())
