"""A matcher as a folder: `model.safetensors`, `config.json`, `vocabulary.json`; an ensemble is a folder of them.

Where the backbone was tuned for it, `backbone.safetensors` lies beside them, or in the folder that holds several models
of one backbone, once for all of them.

Loading runs no code from the folder: weights are safetensors, the rest is JSON, and the kind of model is one of
the names below. What does not fit is refused with a sentence that names the field.
"""

import json
import os
import shutil
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch.overrides import TorchFunctionMode

from smlstm import __version__
from smlstm.baselines import DVSA, OEM, SCAN, VSEPP
from smlstm.errors import ConfigurationError, InputError
from smlstm.matching.matcher import Matcher, MatcherConfig
from smlstm.model import MNLM, SMLSTM, Ensemble
from smlstm.text import Vocabulary
from smlstm.vision.tuning import FILE as BACKBONE
from smlstm.vision.tuning import is_tuned, read_tuned

FORMAT = 1
FILES = ("config.json", "model.safetensors", "vocabulary.json", BACKBONE)
DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
_LARGEST_NUMBER = 1e30
_AS_ALWAYS = (("feature_scale", "rms"),)
"""Settings that models of smlstm 0.1 name, and that cannot be otherwise any more."""
KINDS: dict[str, type[Matcher]] = {
    matcher.kind: matcher for matcher in (SMLSTM, MNLM, OEM, VSEPP, DVSA, SCAN, Ensemble)
}


def save(matcher: Matcher, folder: Path, *, with_backbone: bool = True) -> None:
    """Write a matcher; a reader never sees a half-written one, and nothing but a model is ever replaced.

    Without its tuned backbone if `save_backbone` writes that for several models, into the folder that holds theirs.
    """
    folder = folder.resolve()
    _refuse_other_content(folder)
    part = folder.with_name(f".{folder.name}.{os.getpid()}.part")
    old = folder.with_name(f".{folder.name}.{os.getpid()}.old")
    try:
        shutil.rmtree(part, ignore_errors=True)
        _write(matcher, part)
        if with_backbone:
            save_backbone(matcher, part)
        if folder.exists():
            folder.rename(old)
        part.rename(folder)
    except BaseException:
        if old.exists() and not folder.exists():
            old.rename(folder)
        raise
    finally:
        shutil.rmtree(part, ignore_errors=True)
        if folder.exists():
            shutil.rmtree(old, ignore_errors=True)


def save_backbone(matcher: Matcher, folder: Path) -> None:
    """Write what was tuned of a matcher's backbone, if anything was."""
    if matcher.tuned is not None:
        save_file(dict(matcher.tuned), folder / BACKBONE)


def _refuse_other_content(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file: a model is saved as a folder")
    found = [path.name for path in folder.iterdir()] if folder.exists() else []
    other = [name for name in found if name not in FILES and not name.startswith("member-")]
    if other:
        raise InputError(
            f"{folder} holds {other[0]}, which is not part of a saved model: save into a folder of its own"
        )


def _write(matcher: Matcher, folder: Path) -> None:
    folder.mkdir(parents=True)
    config: dict[str, Any] = {"format": FORMAT, "kind": matcher.kind, "smlstm": __version__}
    if isinstance(matcher, Ensemble):
        config["means"], config["deviations"] = matcher.means.tolist(), matcher.deviations.tolist()
        config["members"] = len(matcher.members)
        for number, member in enumerate(matcher._matchers()):
            _write(member, folder / _member(number))
    else:
        config["model"] = matcher.config.model_dump(mode="json")
        tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in matcher.state_dict().items()}
        save_file(tensors, folder / "model.safetensors")
        (folder / "vocabulary.json").write_text(matcher.vocabulary.to_json(), encoding="utf-8")
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


def _member(number: int) -> str:
    return f"member-{number}"


def load(folder: Path) -> Matcher:
    """Read a matcher of any kind, in evaluation mode."""
    config = _read_config(folder)
    matcher = _load_ensemble(folder, config) if config["kind"] == Ensemble.kind else _load_one(folder, config)
    return matcher.eval()


def _read_backbone(folder: Path, name: str) -> Mapping[str, torch.Tensor] | None:
    """What was tuned of a backbone, from a model's folder or from one that holds it."""
    if not is_tuned(name):
        return None
    places = [folder, *folder.resolve().parents[:2]]
    found = next((place / BACKBONE for place in places if (place / BACKBONE).is_file()), None)
    if found is None:
        raise InputError(f"{folder} has no {BACKBONE}: its model reads features of {name}, which was tuned for it")
    return read_tuned(found)


def _read_config(folder: Path) -> dict[str, Any]:
    path = folder / "config.json"
    if not path.is_file():
        raise InputError(f"{folder} is not a saved model: it has no config.json")
    try:
        content: Any = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"{path} is not JSON: {error}") from None
    config: dict[str, Any] = content if isinstance(content, dict) else {}
    found = config.get("format")
    if found != FORMAT or isinstance(found, bool):
        raise ConfigurationError(
            f'{path}: "format" is {found!r}, this version of smlstm ({__version__}) reads {FORMAT}'
        )
    if not isinstance(config.get("kind"), str) or config["kind"] not in KINDS:
        raise ConfigurationError(
            f'{path}: "kind" is {config.get("kind")!r}, known kinds are {", ".join(sorted(KINDS))}'
        )
    return config


def _load_ensemble(folder: Path, config: dict[str, Any]) -> Ensemble:
    path = folder / "config.json"
    count = config.get("members")
    if not isinstance(count, int) or isinstance(count, bool) or not 1 <= count <= 1000:
        raise ConfigurationError(f'{path}: "members" must be a number of members, not {count!r}')
    ensemble = Ensemble([load(folder / _member(number)) for number in range(count)])
    for name in ("means", "deviations"):
        setattr(ensemble, name, _numbers(config.get(name), count, f'{path}: "{name}"'))
    if not bool((ensemble.deviations > 0).all()):
        raise ConfigurationError(f'{path}: "deviations" must be above 0, not {config["deviations"]}')
    return ensemble


def _numbers(values: object, count: int, where: str) -> torch.Tensor:
    if not isinstance(values, list) or len(values) != count:
        raise ConfigurationError(f"{where} must be a list of {count} numbers")
    for value in values:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or not abs(value) < _LARGEST_NUMBER:  # a NaN is not below it either
            raise ConfigurationError(f"{where} must be a list of {count} finite numbers, not {value!r}")
    return torch.tensor(values, dtype=torch.float32)


def _load_one(folder: Path, config: dict[str, Any]) -> Matcher:
    matcher_type = KINDS[config["kind"]]
    settings = _settings(matcher_type, config.get("model"), folder / "config.json")
    path = folder / "vocabulary.json"
    if not path.is_file():
        raise InputError(f"{folder} is not a saved model: it has no vocabulary.json")
    try:
        vocabulary = Vocabulary.from_json(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{path} is not text: {error}") from None
    except ConfigurationError as error:
        raise ConfigurationError(f"{folder}: {error}") from None
    # Weights come from the file: the random start that a constructor draws would only cost time.
    with torch.device("meta"), _WithoutStart():
        matcher = matcher_type(settings, vocabulary)
    matcher.load_state_dict(_read_tensors(folder / "model.safetensors", matcher), assign=True)
    for parameter in matcher.parameters():
        parameter.requires_grad_(True)
    matcher.tuned = _read_backbone(folder, settings.backbone)
    return matcher


class _WithoutStart(TorchFunctionMode):
    """Leaves tensors as they are where `torch.nn.init` would fill them.

    On the meta device there is nothing to fill, yet asking for it imports torch's compiler, which takes two seconds.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run any function of torch but those."""
        kwargs = kwargs or {}
        if getattr(func, "__module__", None) == "torch.nn.init":
            return kwargs["tensor"] if "tensor" in kwargs else args[0]
        return func(*args, **kwargs)


def _settings(matcher_type: type[Matcher], fields: object, path: Path) -> MatcherConfig:
    if isinstance(fields, dict):
        fields = {name: value for name, value in fields.items() if (name, value) not in _AS_ALWAYS}
    try:
        return matcher_type.config_type.model_validate(fields)
    except ValidationError as error:
        problems = "; ".join(
            f'"{".".join(["model", *map(str, problem["loc"])])}": {problem["msg"]} (found {problem["input"]!r})'
            for problem in error.errors()
        )
        raise ConfigurationError(f"{path}: {problems}") from None


def _read_tensors(path: Path, matcher: Matcher) -> dict[str, torch.Tensor]:
    """The weights, after a look at the file's header: names and shapes must be the configuration's."""
    if not path.is_file():
        raise InputError(f"{path.parent} is not a saved model: it has no model.safetensors")
    expected = {name: list(tensor.shape) for name, tensor in matcher.state_dict().items()}
    try:
        with safe_open(path, framework="pt") as file:
            names = set(file.keys())
            if names != set(expected):
                odd = sorted(names.symmetric_difference(expected))
                where = "missing from" if odd[0] in expected else "unexpected in"
                raise ConfigurationError(f'{path}: tensor "{odd[0]}" is {where} the file')
            for name, shape in expected.items():
                found = file.get_slice(name).get_shape()
                if found != shape:
                    raise ConfigurationError(
                        f'{path}: tensor "{name}" has shape {found}, config.json and vocabulary.json make it {shape}'
                    )
            tensors: dict[str, torch.Tensor] = {name: file.get_tensor(name) for name in names}
    except SafetensorError as error:
        raise ConfigurationError(f"{path} is not a readable safetensors file: {error}") from None
    counts = Counter(tensor.dtype for tensor in tensors.values())
    common = counts.most_common(1)[0][0]
    for name, tensor in tensors.items():
        if tensor.dtype not in DTYPES or tensor.dtype != common:
            allowed = ", ".join(str(dtype).removeprefix("torch.") for dtype in DTYPES)
            raise ConfigurationError(
                f'{path}: tensor "{name}" is {tensor.dtype}; all weights must have one type of {allowed}'
            )
        if not bool(torch.isfinite(tensor).all()):
            raise ConfigurationError(f'{path}: tensor "{name}" holds values that are not finite numbers')
    # Half precision is a way to keep a file small; arithmetic is float32 unless a caller asks otherwise.
    small = (torch.float16, torch.bfloat16)
    return {name: tensor.float() if tensor.dtype in small else tensor for name, tensor in tensors.items()}
