"""Training: from a configuration file to a folder with a model.

| file | what |
|---|---|
| `config.py`, `data_config.py`, `tuning_config.py`, `config_file.py` | what a run is; TOML, all problems at once |
| `examples.py`, `read_examples.py`, `prefetch.py` | captions and features, read ahead |
| `sources.py` | which features each stage reads |
| `tuning.py`, `tuned_features.py` | a backbone whose last blocks learn, and what it then sees |
| `batches.py`, `phrases.py` | which captions meet; their noun phrases, and where those are |
| `step.py` | the loss of a batch, in bounded memory |
| `optimiser.py`, `transfer.py` | learning rate, Adam; where weights start from |
| `loop.py` | one stage, from top to bottom |
| `run.py` | all stages of a run |
| `checkpoint.py`, `stopping.py` | stop at any moment, go on exactly |
| `dev.py`, `folder.py`, `curves.py`, `watchers.py` | what a run tells and leaves |
"""

from smlstm.training.config import RunConfig, StageConfig
from smlstm.training.config_file import read_config
from smlstm.training.run import StageResult, train
from smlstm.training.watchers import Watcher

__all__ = ["RunConfig", "StageConfig", "StageResult", "Watcher", "read_config", "train"]
