"""What the baselines' configurations have in common, under the names that MNLM's has too."""

from pydantic import Field

from smlstm.matching.matcher import MatcherConfig
from smlstm.model.config import Positive, Share


class BaselineConfig(MatcherConfig):
    """A baseline that embeds both sides in one space."""

    embedding_width: Positive = Field(default=300, description="width of a word vector")
    sentence_width: Positive = Field(description="E, width of the joint space and of the recurrent network")
    dropout: Share = Field(default=0.0, description="on word vectors, in training; the papers name none")
