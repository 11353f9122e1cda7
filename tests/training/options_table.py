"""The table of docs/options.md, made of the configurations' own fields and of the files that set them.

    python -m tests.training.options_table        writes it anew

An option that nobody uses has no place in it: it goes, or a line below says who will use it.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from smlstm.baselines.config import BaselineConfig
from smlstm.baselines.dvsa import DVSAConfig
from smlstm.baselines.oem import OEMConfig
from smlstm.baselines.scan import SCANConfig
from smlstm.matching.matcher import MatcherConfig
from smlstm.model import MNLMConfig, ObjectiveConfig, SMLSTMConfig
from smlstm.reproduce.config import SweepConfig
from smlstm.saving import KINDS
from smlstm.training.config import (
    FROM_FEATURES,
    PairConfig,
    RunConfig,
    StageConfig,
    VocabularyConfig,
)
from smlstm.training.config_file import tomllib
from smlstm.training.data_config import DataConfig
from smlstm.training.tuning_config import TunedFeaturesConfig, TuningConfig

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "options.md"

# Heading, kind of configuration, where a file has it, and the kinds of matcher that have it.
SECTIONS: list[tuple[str, type[BaseModel], str, tuple[str, ...]]] = [
    ("A run", RunConfig, "", ()),
    ("`[[data]]`", DataConfig, "data.*.", ()),
    ("`[vocabulary]`", VocabularyConfig, "vocabulary.", ()),
    ("`[stage.NAME]`", StageConfig, "stage.*.", ()),
    ("`[stage.NAME.tuning]`", TuningConfig, "stage.*.tuning.", ()),
    ("`[stage.NAME.features]`", TunedFeaturesConfig, "stage.*.features.", ()),
    ("`objective` of a stage", ObjectiveConfig, "stage.*.objective.", ()),
    ("`model` of any stage", MatcherConfig, "stage.*.model.", ()),
    ("`model` of an sm-LSTM", SMLSTMConfig, "stage.*.model.", ("sm-lstm",)),
    ("`model` of an MNLM or VSE++", MNLMConfig, "stage.*.model.", ("mnlm", "vse++")),
    ("`model` of OEM, DVSA and SCAN", BaselineConfig, "stage.*.model.", ("oem", "dvsa", "scan")),
    ("`model` of OEM", OEMConfig, "stage.*.model.", ("oem",)),
    ("`model` of DVSA", DVSAConfig, "stage.*.model.", ("dvsa",)),
    ("`model` of SCAN", SCANConfig, "stage.*.model.", ("scan",)),
    ("`[pair]`", PairConfig, "pair.", ()),
    ("`[reproduce]`", SweepConfig, "reproduce.", ()),
]

DEFAULT = "every run, by its default"
PAPER = "preset `paper`; coming: issue 20"
OWN_PAPER = "reproduction: that baseline's own paper, by its default"
# Who uses what no file sets.
USERS = {
    "device": "every run, by its default; machines with a GPU",
    "data.*.split_scheme": "COCO's and Flickr's published splits; coming: issue 20",
    "data.*.dev": "data that is only there to learn from; coming: issue 19",
    "stage.*.preset": PAPER,
    "stage.*.negatives": "`batch`: every run; `uniform`, the paper's 100 pairs, coming: issue 20",
    "stage.*.weight_decay": "coming: issue 19, a CNN that is tuned",
    "stage.*.tuning.weight_decay": "coming: issue 19, a CNN that is tuned",
    "stage.*.warmup_steps": DEFAULT,
    "stage.*.final_share": DEFAULT,
    "stage.*.clip": DEFAULT,
    "stage.*.precision": DEFAULT,
    "stage.*.checkpoint_seconds": DEFAULT,
    "stage.*.log_steps": DEFAULT,
    "stage.*.objective.margin": "every ranking loss, by its default",
    "stage.*.objective.negatives": PAPER,
    "stage.*.objective.regulariser": "reproduction: `lambdas`",
    "stage.*.model.variant": "reproduction: `variants`",
    "stage.*.model.modulation": "reproduction: `modulations`",
    "stage.*.model.comparison": "reproduction: `comparisons`",
    "stage.*.model.steps": "reproduction: `steps`",
    "pair.half": "pretrained.toml, by its default",
    "reproduce.images": "reproduction, by its default",
    "reproduce.attention_images": "reproduction, by its default",
}


def table() -> str:
    """The whole page."""
    parts = [HEAD]
    for heading, kind, place, matchers in SECTIONS:
        rows = [_row(name, field, place + name, matchers) for name, field in _own_fields(kind)]
        if rows:
            parts += [
                f"## {heading}",
                "| option | default | meaning | used by |\n|---|---|---|---|\n" + "\n".join(rows),
            ]
    return "\n\n".join(parts) + "\n"


HEAD = """# Every option of a configuration, and who uses it

Made by `python -m tests.training.options_table` from the configurations' own fields and the files
that set them; a test compares. Options that are gone, and what to do instead:
[`training/removed.py`](../src/smlstm/training/removed.py)."""


def unused() -> list[str]:
    """Options that no file sets and nobody is named for."""
    fields = [(place + name, matchers) for _, kind, place, matchers in SECTIONS for name, _ in _own_fields(kind)]
    return [path for path, matchers in fields if not users(path, matchers)]


def users(path: str, matchers: tuple[str, ...]) -> list[str]:
    """Who uses an option: files that set it, the shipped model, and whoever is named above."""
    name = path.rpartition(".")[2]
    found = [file for file, settings in _files().items() if any(True for _ in _find(settings, path, matchers))]
    if path.startswith("stage.*.model."):
        if any(kind in matchers or not matchers for kind, model in _shipped() if _differs(kind, model, name)):
            found.append("the shipped model")
        if set(matchers) & {"oem", "dvsa", "scan"}:
            found.append(OWN_PAPER)
    return found + ([USERS[path]] if path in USERS else [])


def _own_fields(kind: type[BaseModel]) -> Iterator[tuple[str, FieldInfo]]:
    """Fields that are not listed with a more general kind already, and that a file may set."""
    inherited = {name for base in kind.__mro__[1:] for name in getattr(base, "model_fields", {})}
    for name, field in kind.model_fields.items():
        if name not in inherited and not (kind is MatcherConfig and name in FROM_FEATURES):
            yield name, field


def _row(name: str, field: FieldInfo, path: str, matchers: tuple[str, ...]) -> str:
    if field.is_required():
        default = "-"
    else:
        value = field.get_default()
        default = "" if field.default_factory is not None or isinstance(value, BaseModel) else f"`{json.dumps(value)}`"
    meaning = (field.description or "").replace("|", "\\|")
    return f"| `{name}` | {default} | {meaning} | {', '.join(users(path, matchers))} |"


def _files() -> dict[str, Any]:
    paths = sorted((ROOT / "configs").glob("*.toml"))
    return {path.name: tomllib.loads(path.read_text(encoding="utf-8")) for path in paths}


def _shipped() -> list[tuple[str, dict[str, Any]]]:
    paths = sorted((ROOT / "src" / "smlstm" / "pretrained").glob("*/config.json"))
    found = [json.loads(path.read_text(encoding="utf-8")) for path in paths]
    return [(each["kind"], each["model"]) for each in found]


def _differs(kind: str, model: dict[str, Any], name: str) -> bool:
    """Whether a saved model has something else than the default; it names every setting of its day."""
    field = KINDS[kind].config_type.model_fields.get(name)
    return field is not None and name in model and model[name] != field.get_default()


_KINDS = {"smlstm": "sm-lstm", "vsepp": "vse++"}


def _find(settings: Any, path: str, matchers: tuple[str, ...]) -> Iterator[Any]:
    """Values at a path, of stages of some kinds."""
    first, _, rest = path.partition(".")
    if first == "*":
        items = enumerate(settings) if isinstance(settings, list) else settings.items()
        for key, value in items:
            kind = value.get("kind", _KINDS.get(key, key))
            if not matchers or kind in matchers:
                yield from _find(value, rest, matchers)
    elif isinstance(settings, dict) and first in settings:
        yield from _find(settings[first], rest, matchers) if rest else [settings[first]]


def undescribed() -> list[str]:
    """Options without a meaning."""
    return re.findall(r"^\| `(\w+)` \| [^|]* \|  \|", table(), re.MULTILINE)


if __name__ == "__main__":
    PAGE.write_text(table(), encoding="utf-8")
