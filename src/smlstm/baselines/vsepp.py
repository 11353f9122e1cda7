"""VSE++: improving visual-semantic embeddings with hard negatives (Faghri, Fleet, Kiros and Fidler, BMVC 2018).

    s(i, c) = x . v,  x = W m / ||W m||,  v = g / ||g||
    l(i, c) = max_c' [a - s(i, c) + s(i, c')]_+ + max_i' [a - s(i, c) + s(i', c)]_+,  a = 0.2

The model is MNLM's and what is new is the objective: the hardest mismatched pair each way instead of their sum.
Departures: g is the last state of MNLM's LSTM where the paper has a GRU, so that a comparison with MNLM shows the
objective alone; the CNN stays frozen (the paper's results without fine-tuning).
"""

from typing import ClassVar

from smlstm.model.config import MNLMConfig, ObjectiveConfig
from smlstm.model.mnlm import MNLM


class VSEPPConfig(MNLMConfig):
    """VSE++; the paper has 300 wide word vectors and E = 1024."""


class VSEPP(MNLM):
    """MNLM, trained with the hardest mismatched pairs."""

    kind: ClassVar[str] = "vse++"
    config_type = VSEPPConfig
    config: VSEPPConfig

    @staticmethod
    def objective() -> ObjectiveConfig:
        """The paper's: the hardest mismatched pair of the batch each way, margin 0.2."""
        return ObjectiveConfig(form="hardest", margin=0.2, negatives=None, regulariser=0.0)
