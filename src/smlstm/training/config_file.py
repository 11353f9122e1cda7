"""Configuration files: TOML or JSON in, every problem at once out."""

import importlib
import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from smlstm.errors import ConfigurationError
from smlstm.training.config import RunConfig, describe
from smlstm.training.removed import without_removed

Config = TypeVar("Config", bound=RunConfig)

# The same module under two names.
tomllib: Any = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")


def read_config(path: str | os.PathLike[str], settings: Sequence[str] = ()) -> RunConfig:
    """Read a run's configuration from TOML, or from the `config.json` of a run; then apply `key=value` settings.

    Relative paths are looked up beside the file, then in the working directory.
    """
    return read_config_as(RunConfig, path, settings)


def read_config_as(config_type: type[Config], path: str | os.PathLike[str], settings: Sequence[str] = ()) -> Config:
    """Read a configuration that is a run's and more."""
    path = Path(path)
    if path.is_dir():
        path = path / "config.json"
    raw = _read(path)
    for setting in settings:
        _apply(raw, setting)
    raw, problems = without_removed(raw)
    config: Config | None = None
    try:
        config = config_type.model_validate(raw)
    except ValidationError as error:
        problems += [describe(problem) for problem in error.errors()]
    if config is None or problems:
        count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
        raise ConfigurationError(f"{path} has {count}:\n" + "\n".join(f"  - {line}" for line in problems))
    return _with_paths(config, path.parent)


def _read(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
        content = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except FileNotFoundError:
        raise ConfigurationError(f"{path} does not exist: give a TOML file or the folder of a run") from None
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:  # neither kind of decoding error, nor that of text, is anything else
        raise ConfigurationError(f"{path} is not {path.suffix[1:].upper() or 'TOML'}: {error}") from None
    if not isinstance(content, dict):
        raise ConfigurationError(f"{path} must hold a table of settings")
    return content


def _apply(raw: dict[str, Any], setting: str) -> None:
    """Put one `a.b.0.c=value` in its place; a value that is not TOML is a string."""
    key, equals, text = setting.partition("=")
    if not equals or not key:
        raise ConfigurationError(f'a setting is written key=value, such as stage.mnlm.epochs=5, not "{setting}"')
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        value = text
    *parents, last = key.split(".")
    place: Any = raw
    for part in parents:
        try:
            place = place[int(part)] if isinstance(place, list) else place.setdefault(part, {})
        except (ValueError, IndexError, AttributeError):
            raise ConfigurationError(f'there is no "{part}" to set in {key}') from None
    if isinstance(place, list) and last.isdigit() and int(last) < len(place):
        place[int(last)] = value
    elif isinstance(place, dict):
        place[last] = value
    else:
        raise ConfigurationError(f'there is no "{last}" to set in {key}')


def _with_paths(config: Config, folder: Path) -> Config:
    def find(path: Path) -> Path:
        path = Path(os.path.expandvars(path)).expanduser()
        beside = folder / path
        return (path if not beside.exists() and path.exists() else beside).resolve()

    def found(value: Any) -> Any:
        if isinstance(value, list):
            return [found(each) for each in value]
        return find(value) if isinstance(value, Path) else value

    data = [part.model_copy(update={name: found(value) for name, value in part}) for part in config.data]
    stages = {}
    earlier: set[str] = set()
    for name, stage in config.stage.items():
        sources: Any = [_source(given, earlier, find, f"stage.{name}.start_from") for given in stage.sources]
        if not isinstance(stage.start_from, list):
            sources = sources[0] if sources else None
        stages[name] = stage.model_copy(update={"start_from": sources})
        earlier.add(name)
    return config.model_copy(update={"data": data, "stage": stages})


def _source(given: str, earlier: set[str], find: Callable[[Path], Path], place: str) -> str:
    """The name of an earlier stage, or where a saved model is."""
    if given in earlier:
        return given
    path = find(Path(given))
    if not path.exists():
        known = ", ".join(sorted(earlier)) or "none"
        raise ConfigurationError(
            f"{place}: {given!r} is neither an earlier stage ({known}) nor a folder of a saved model"
        )
    return str(path)
