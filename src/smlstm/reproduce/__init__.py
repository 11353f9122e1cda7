"""The paper reproduced: every run of its tables on the data at hand, and a report beside its numbers.

| file | what |
|---|---|
| `config.py` | a run's configuration and which sweeps to make of it |
| `plan.py` | the runs: one stage is varied, everything else stays |
| `budget.py` | training within a budget, resumed run by run |
| `results.py` | ranks, costs and attention of each run, kept in files |
| `run.py` | all of it in order |
| `paper.py`, `paper.json` | the numbers of the paper's four tables |
| `tables.py`, `figures.py`, `findings.py` | what the report is made of |
| `report.py`, `page.py` | the report, as Markdown and as a page |
"""

from smlstm.reproduce.config import ReproduceConfig, read_reproduce_config
from smlstm.reproduce.plan import PARTS, Plan, make_plan
from smlstm.reproduce.reproduction import Outcome, reproduce

__all__ = ["PARTS", "Outcome", "Plan", "ReproduceConfig", "make_plan", "read_reproduce_config", "reproduce"]
