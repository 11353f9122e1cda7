"""Other papers' matchers behind the same interface, on the same features, for fair comparison.

| class | paper | score of a pair | objective |
|---|---|---|---|
| `OEM` | order embeddings, Vendrov et al. 2016 | how far the caption's vector exceeds the image's | sum, 0.05 |
| `VSEPP` | VSE++, Faghri et al. 2018 | cosine, as MNLM | hardest, 0.2 |
| `DVSA` | alignments, Karpathy and Fei-Fei 2015 | each word's best region, summed | sum, 1 |
| `SCAN` | stacked cross attention, Lee et al. 2018 | each word against the image it attends to, pooled | hardest, 0.2 |

`objective()` of each class gives the objective that its paper trains it with.
"""

from smlstm.baselines.dvsa import DVSA, DVSAConfig
from smlstm.baselines.oem import OEM, OEMConfig
from smlstm.baselines.scan import SCAN, SCANConfig
from smlstm.baselines.vsepp import VSEPP, VSEPPConfig

__all__ = ["DVSA", "OEM", "SCAN", "VSEPP", "DVSAConfig", "OEMConfig", "SCANConfig", "VSEPPConfig"]
