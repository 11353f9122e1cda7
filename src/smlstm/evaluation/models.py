"""Models to evaluate: saved folders, what to call them, and what features they need."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from smlstm.data import FeatureSpec
from smlstm.device import choose_device
from smlstm.errors import InputError
from smlstm.files import fingerprint
from smlstm.matching.matcher import Matcher
from smlstm.pair import is_pair, model_folder
from smlstm.text.language_model import language_model


@dataclass(frozen=True, eq=False)
class Candidate:
    """A loaded model and the name that tables give it."""

    name: str
    matcher: Matcher
    fingerprint: str
    """Of its files: the same for the same weights, configuration and vocabulary."""

    def refuse_other_features(self, spec: FeatureSpec, where: object) -> None:
        """Refuse features that this model was not trained on, before anything is scored with them."""
        config = self.matcher.config
        if config.backbone and config.backbone != spec.backbone:
            raise InputError(
                f"{self.name} was trained on features of {config.backbone}, {where} holds those of {spec.backbone}: "
                f"give features of {config.backbone}"
            )
        for field in ("region_width", "context_width"):
            ours, theirs = getattr(config, field), getattr(spec, field)
            if ours != theirs:
                raise InputError(f"{self.name} reads features of {field} {ours}, {where} holds {field} {theirs}")


def load_candidates(folders: Sequence[Path], device: str = "cpu") -> list[Candidate]:
    """Load saved models, or the shipped one; a folder of a training stage stands for the model in it."""
    place = choose_device(device)
    if not folders:
        folders = [model_folder()]
    found = [_model_folder(folder) for folder in folders]
    twice = [folder for folder, count in Counter(folder.resolve() for folder in found).items() if count > 1]
    if twice:
        raise InputError(f"{twice[0]} is given twice: give different models")
    names = distinct_names(found)
    return [
        Candidate(name, load_matcher(folder).to(place), files_fingerprint(folder))
        for name, folder in zip(names, found, strict=True)
    ]


def load_matcher(folder: Path) -> Matcher:
    """Load a matcher, or a pair as one; a folder of a training stage stands for the model in it."""
    folder = _model_folder(folder)
    return Matcher.from_pretrained(folder) if is_pair(folder) else Matcher.load(folder)


def distinct_names(paths: Sequence[Path]) -> list[str]:
    """Short names: the last part of a path that says something, and parts before it as far as names are alike."""
    parts = [path.resolve().parts for path in paths]
    parts = [each[:-1] if each[-1] == "model" and len(each) > 2 else each for each in parts]
    depth = 1
    while True:
        names = ["/".join(each[-depth:]) for each in parts]
        if len(set(names)) == len(names) or depth >= max(map(len, parts)):
            return names
        depth += 1


def _model_folder(folder: Path) -> Path:
    if not folder.exists():
        raise InputError(f"{folder} does not exist: give the folder of a saved model")
    inner = folder / "model"
    return inner if inner.is_dir() and not (folder / "model.safetensors").exists() else folder


def files_fingerprint(folder: Path) -> str:
    """Of a saved model's files: the same for the same weights, configuration and vocabulary."""
    parts: list[str | Path] = [language_model().digest]
    for path in sorted(folder.rglob("*")):
        if path.suffix in (".json", ".safetensors"):
            parts += [path.relative_to(folder).as_posix() + "\0", path]
    return fingerprint(parts)
