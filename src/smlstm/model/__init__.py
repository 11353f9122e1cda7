"""The paper, in its own order.

| file | section of the paper |
|---|---|
| `config.py` | symbols and sizes, presets |
| `sentence.py` | 3.1 sentence instance candidates w_j, and the sentence's context n |
| `image.py` | 3.1 image instance candidates a_i, and the image's context m |
| `attention.py`, `joint.py` | 3.2, 3.3 context-modulated attention: saliency maps p_t, q_t |
| `comparison.py` | 3.4 attended instances a'_t, w'_t and their local similarity s_t |
| `aggregation.py` | 3.4 the LSTM over steps and the matching score |
| `smlstm.py` | the whole model and its variants |
| `objective.py` | 3.5 ranking loss and doubly stochastic regulariser |
| `whole.py`, `instances.py` | beyond the paper: a global score, an instance score |
| `paired.py`, `phrases.py` | beyond the paper: the image is searched for what is attended to, phrase by phrase |
| `readers.py` | beyond the paper: a language model reads, or two readers do |
| `mnlm.py` | the baseline from which training starts (Kiros et al. 2014) |
| `ensemble.py` | 4.2 sm-LSTM*, sums of similarity matrices |
"""

from smlstm.model.config import MNLMConfig, ObjectiveConfig, Preset, SMLSTMConfig, compact, paper
from smlstm.model.ensemble import Ensemble
from smlstm.model.mnlm import MNLM
from smlstm.model.smlstm import SMLSTM

__all__ = [
    "MNLM",
    "SMLSTM",
    "Ensemble",
    "MNLMConfig",
    "ObjectiveConfig",
    "Preset",
    "SMLSTMConfig",
    "compact",
    "paper",
]
